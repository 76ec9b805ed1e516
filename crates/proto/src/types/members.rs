//! The members of a JSON object with arbitrary names, in their original order.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;

use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, Serializer};

/// A map from names to values that keeps its order. Lookup is linear: such objects have few members.
///
/// Deserializing an object with a repeated name fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Members<V>(Vec<(String, V)>);

impl<V> Members<V> {
    /// An empty map.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// The value with this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&V> {
        self.0.iter().find_map(|(known, value)| (known == name).then_some(value))
    }

    /// Whether there is a value with this name.
    #[must_use]
    pub fn contains_key(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Inserts a value. Replaces and returns the value with the same name, or appends.
    pub fn insert(&mut self, name: impl Into<String>, value: V) -> Option<V> {
        let name = name.into();
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, place)) => Some(core::mem::replace(place, value)),
            None => {
                self.0.push((name, value));
                None
            }
        }
    }

    /// Removes a value.
    pub fn remove(&mut self, name: &str) -> Option<V> {
        let place = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.remove(place).1)
    }

    /// Inserts a value and returns the map.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: V) -> Self {
        self.insert(name, value);
        self
    }

    /// The number of members.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no members.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Names and values in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &V)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// The names in order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// The values in order.
    pub fn values(&self) -> impl ExactSizeIterator<Item = &V> {
        self.0.iter().map(|(_, value)| value)
    }

    /// Appends a value. The caller ensures that the name is new, or checks with [`Self::refuse_duplicates`].
    pub(super) fn push(&mut self, name: String, value: V) {
        self.0.push((name, value));
    }

    /// Fails when a name is repeated.
    pub(super) fn refuse_duplicates<E: de::Error>(&self) -> Result<(), E> {
        // Sorted, because the peer controls the number of members.
        let mut names: Vec<&str> = self.keys().collect();
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(E::custom(format_args!("the member `{}` is there twice", pair[0]))),
            None => Ok(()),
        }
    }
}

impl<V> Default for Members<V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<V> IntoIterator for Members<V> {
    type Item = (String, V);
    type IntoIter = alloc::vec::IntoIter<(String, V)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<N: Into<String>, V> FromIterator<(N, V)> for Members<V> {
    /// For repeated names, the last value is kept.
    fn from_iter<I: IntoIterator<Item = (N, V)>>(entries: I) -> Self {
        let mut members = Self::new();
        // Not with `insert`, which is linear: the peer may control the number of members.
        let mut places = BTreeMap::new();
        for (name, value) in entries {
            let name = name.into();
            match places.get(&name).and_then(|place| members.0.get_mut(*place)) {
                Some((_, known)) => *known = value,
                None => {
                    places.insert(name.clone(), members.0.len());
                    members.push(name, value);
                }
            }
        }
        members
    }
}

impl<N: Into<String>, V, const COUNT: usize> From<[(N, V); COUNT]> for Members<V> {
    fn from(entries: [(N, V); COUNT]) -> Self {
        entries.into_iter().collect()
    }
}

impl<V: Serialize> Serialize for Members<V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Members<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object<V>(PhantomData<V>);

        impl<'de, V: Deserialize<'de>> Visitor<'de> for Object<V> {
            type Value = Members<V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Members<V>, A::Error> {
                let mut members = Members::new();
                while let Some((name, value)) = object.next_entry()? {
                    members.push(name, value);
                }
                members.refuse_duplicates()?;
                Ok(members)
            }
        }

        deserializer.deserialize_map(Object(PhantomData))
    }
}
