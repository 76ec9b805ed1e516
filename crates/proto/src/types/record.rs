//! The three shapes that everything on the wire has: an object with fixed members, a word from an open list, and
//! a union told apart by one member. Used by the files beside this one; each macro is the one place that says
//! how such a shape is read and written.

use serde::{Deserialize, Deserializer};

use crate::Raw;

/// Reads any value, `null` too, for a member that may be absent: there and `null` says something else than not
/// there. Called by serde, for the members that name it.
pub(crate) fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Raw>, D::Error> {
    Raw::deserialize(deserializer).map(Some)
}

/// Declares an object: the members that it must have, `---`, and those that it may have.
///
/// Member names are written in camelCase. A member that it may have is absent when it is `None`, and `null`
/// reads as absent. `new` takes the members that it must have, in their order (`as` gives the type of the
/// argument where it is not the member's own); `=>` names a chained setter.
macro_rules! record {
    (
        $(#[$attribute:meta])*
        $name:ident {
            $($(#[$must_attribute:meta])* $must:ident: $must_type:ty $(as $argument:ty)?,)*
            ---
            $($(#[$may_attribute:meta])* $may:ident: $may_type:ty $(=> $setter:ident)?,)*
        }
    ) => {
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        $(#[$attribute])*
        #[serde(rename_all = "camelCase")]
        #[non_exhaustive]
        pub struct $name {
            $($(#[$must_attribute])* pub $must: $must_type,)*
            $(
                $(#[$may_attribute])*
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub $may: Option<$may_type>,
            )*
        }

        impl $name {
            #[doc = concat!("A `", stringify!($name), "` with what it must have, and nothing that it may have.")]
            #[must_use]
            #[allow(
                clippy::new_without_default,
                clippy::too_many_arguments,
                reason = "one argument for each member that it must have"
            )]
            pub fn new($($must: record!(@argument $must_type $(, $argument)?)),*) -> Self {
                Self { $($must: $must.into(),)* $($may: None,)* }
            }

            $($(
                #[doc = concat!("The same with its `", stringify!($may), "`.")]
                #[must_use]
                pub fn $setter(mut self, $may: impl Into<$may_type>) -> Self {
                    self.$may = Some($may.into());
                    self
                }
            )?)*
        }
    };
    (@argument $type:ty) => { $type };
    (@argument $type:ty, $argument:ty) => { $argument };
}

/// Declares a word from an open list: an unknown one is kept as it is.
macro_rules! open {
    ($(#[$attribute:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$attribute])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$doc])* $variant,)*
            /// A word that this crate does not know.
            Other(alloc::boxed::Box<str>),
        }

        impl $name {
            /// The word as it stands on the wire.
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $word,)*
                    Self::Other(word) => word,
                }
            }
        }

        impl From<&str> for $name {
            fn from(word: &str) -> Self {
                match word {
                    $($word => Self::$variant,)*
                    other => Self::Other(other.into()),
                }
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let word: alloc::borrow::Cow<'de, str> = serde::Deserialize::deserialize(deserializer)?;
                Ok(Self::from(&*word))
            }
        }
    };
}

/// Declares a union of records that say in the member `$tag` which one they are. The records write that member
/// themselves (`#[serde(tag = ..., rename = ...)]`); the union reads it, a record alone passes it over. An unknown
/// kind is kept word for word.
macro_rules! union {
    (
        $(#[$attribute:meta])*
        $name:ident by $tag:literal { $($(#[$doc:meta])* $word:literal => $variant:ident($type:ty),)* }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$doc])* $variant($type),)*
            /// A kind that this crate does not know, as it was written.
            Other(crate::Raw),
        }

        $(
            impl From<$type> for $name {
                fn from(value: $type) -> Self {
                    Self::$variant(value)
                }
            }
        )*

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    $(Self::$variant(value) => value.serialize(serializer),)*
                    Self::Other(raw) => raw.serialize(serializer),
                }
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                use serde::de::Error;
                // Where it lies: its text may be long, and is read once the kind is known.
                let text = crate::json::deserialize_text(deserializer)?;
                match crate::json::string_member(&text, $tag).as_deref() {
                    $(Some($word) => {
                        crate::json::from_text(&text).map(Self::$variant).map_err(D::Error::custom)
                    })*
                    Some(_) => Ok(Self::Other(crate::json::kept(&text))),
                    None => Err(D::Error::custom(concat!("the member `", $tag, "` is missing or no string"))),
                }
            }
        }
    };
}
