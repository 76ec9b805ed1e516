//! Macros for the kinds of protocol types: an object with fixed members, a word of an open list, and a union with a
//! tag. Used by the other files of this module. Each macro defines how its kind is read and written.

/// Declares an object: the required members, `---`, and the optional members.
///
/// Member names are camelCase in JSON, or as the text behind the field says. A tag behind the name of the type is the first
/// member, which is written and not read. An optional member is omitted when it is `None`, and `null` is read as absent.
/// Rules behind the type of a member: `| null`: `null` is a value; `| default`: a required member may be absent when it is
/// read; `| number`: as [`Number`](super::fields::Number). [`fields`](super::fields) reads and writes.
///
/// `new` takes the required members in their order (`as` gives the type of the argument where it differs from the type
/// of the member); `=>` names a chained setter.
///
/// Groups in square brackets behind the name add members that many objects share. `field` adds them before the other
/// optional members, every other group adds them at the end, in the order of the groups.
macro_rules! record {
    ($(#[$attribute:meta])* $name:ident $($tag:literal: $kind:literal)? [$($group:ident)+] {
        $(
            $(#[$must_doc:meta])*
            $must:ident $($must_name:literal)?: $must_type:ty $(| $must_rule:ident)? $(as $argument:ty)?,
        )*
        ---
        $($may:tt)*
    }) => {
        record! {
            @add [$($group)+]
            { $(#[$attribute])* $name $($tag: $kind)? }
            {
                $(
                    $(#[$must_doc])*
                    $must $($must_name)?: $must_type $(| $must_rule)? $(as $argument)?,
                )*
            }
            { $($may)* }
        }
    };
    (@add [] { $($head:tt)* } { $($must:tt)* } { $($may:tt)* }) => {
        record! { $($head)* { $($must)* --- $($may)* } }
    };
    (@add [field $($more:ident)*] $head:tt $must:tt { $($may:tt)* }) => {
        record! { @add [$($more)*] $head $must {
            /// The display name.
            title: alloc::string::String => with_title,
            /// The description of the expected value.
            description: alloc::string::String => with_description,
            $($may)*
        } }
    };
    (@add [page $($more:ident)*] $head:tt $must:tt { $($may:tt)* }) => {
        record! { @add [$($more)*] $head $must { $($may)*
            /// The cursor of the next page. Absent on the last page.
            next_cursor: alloc::string::String => with_next_cursor,
        } }
    };
    (@add [cached $($more:ident)*] $head:tt $must:tt { $($may:tt)* }) => {
        record! { @add [$($more)*] $head $must { $($may)*
            /// How long the result is fresh, in milliseconds from its arrival. Absent or negative: it is stale at once.
            ttl_ms: i64 => with_ttl_ms,
            /// Which clients may share the cached result.
            cache_scope: $crate::types::CacheScope => with_cache_scope,
        } }
    };
    (@add [retry $($more:ident)*] $head:tt $must:tt { $($may:tt)* }) => {
        record! { @add [$($more)*] $head $must { $($may)*
            /// The responses to the input requests of the server's last result; since 2026-07-28.
            input_responses: $crate::types::InputResponses => with_input_responses,
            /// The `requestState` of the server's last result, unchanged; since 2026-07-28.
            request_state: alloc::string::String => with_request_state,
        } }
    };
    (@add [annotated $($more:ident)*] $head:tt $must:tt { $($may:tt)* }) => {
        record! { @add [$($more)*] $head $must { $($may)*
            /// Hints for display and selection.
            annotations: $crate::types::Annotations => with_annotations,
        } }
    };
    (@add [request $($more:ident)*] $head:tt $must:tt { $($may:tt)* }) => {
        record! { @add [$($more)*] $head $must { $($may)*
            /// Metadata of the request.
            meta "_meta": $crate::types::Meta => with_meta,
        } }
    };
    (@add [notification $($more:ident)*] $head:tt $must:tt { $($may:tt)* }) => {
        record! { @add [$($more)*] $head $must { $($may)*
            /// Metadata of the notification.
            meta "_meta": $crate::types::Meta => with_meta,
        } }
    };
    (@add [result $($more:ident)*] $head:tt $must:tt { $($may:tt)* }) => {
        record! { @add [$($more)*] $head $must { $($may)*
            /// Set by the session; leave it `None` when you build a result.
            result_type: alloc::string::String,
            /// Metadata of the result.
            meta "_meta": $crate::types::Meta => with_meta,
        } }
    };
    (@add [item $($more:ident)*] $head:tt $must:tt { $($may:tt)* }) => {
        record! { @add [$($more)*] $head $must { $($may)*
            /// Metadata; since 2025-06-18.
            meta "_meta": $crate::types::Meta => with_meta,
        } }
    };
    (@add [meta $($more:ident)*] $head:tt $must:tt { $($may:tt)* }) => {
        record! { @add [$($more)*] $head $must { $($may)*
            /// Metadata.
            meta "_meta": $crate::types::Meta => with_meta,
        } }
    };
    (
        $(#[$attribute:meta])*
        $name:ident $($tag:literal: $kind:literal)? {
            $(
                $(#[$must_doc:meta])*
                $must:ident $($must_name:literal)?: $must_type:ty $(| $must_rule:ident)? $(as $argument:ty)?,
            )*
            ---
            $(
                $(#[$may_doc:meta])*
                $may:ident $($may_name:literal)?: $may_type:ty $(| $may_rule:ident)? $(=> $setter:ident)?,
            )*
        }
    ) => {
        #[derive(Clone, Debug, PartialEq)]
        $(#[$attribute])*
        #[non_exhaustive]
        pub struct $name {
            $($(#[$must_doc])* pub $must: $must_type,)*
            $($(#[$may_doc])* pub $may: Option<$may_type>,)*
        }

        impl $name {
            #[doc = concat!("A `", stringify!($name), "` with its required members only.")]
            #[must_use]
            #[allow(
                clippy::new_without_default,
                clippy::too_many_arguments,
                reason = "one argument for each required member"
            )]
            pub fn new($($must: record!(@argument $must_type $(, $argument)?)),*) -> Self {
                Self { $($must: $must.into(),)* $($may: None,)* }
            }

            $($(
                #[doc = concat!("Sets `", stringify!($may), "`.")]
                #[must_use]
                pub fn $setter(mut self, $may: impl Into<$may_type>) -> Self {
                    self.$may = Some($may.into());
                    self
                }
            )?)*
        }

        #[automatically_derived]
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                const REQUIRED: &[&str] = &[$($tag,)? $(record!(@name $must $($must_name)?)),*];
                let length = REQUIRED.len() $(+ usize::from(self.$may.is_some()))*;
                let object = serializer.serialize_struct(stringify!($name), length)?;
                #[allow(unused_mut, reason = "a type may have no members")]
                let mut members = crate::types::fields::Writing::new(object);
                $(members.required($tag, $kind);)?
                $(record!(
                    @write members.required, record!(@name $must $($must_name)?), self.$must $(, $must_rule)?
                );)*
                $(record!(
                    @write members.optional, record!(@name $may $($may_name)?), self.$may $(, $may_rule)?
                );)*
                members.end()
            }
        }

        #[automatically_derived]
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                #[allow(non_camel_case_types, reason = "the names of the fields")]
                enum Field { $($must,)* $($may,)* }
                const NAMES: &[&str] = &[
                    $(record!(@name $must $($must_name)?),)*
                    $(record!(@name $may $($may_name)?),)*
                ];
                const { assert!(NAMES.len() <= crate::types::fields::MAX_FIELDS) };

                fn index(name: &str) -> Option<usize> {
                    $(if name == record!(@name $must $($must_name)?) {
                        return Some(Field::$must as usize);
                    })*
                    $(if name == record!(@name $may $($may_name)?) {
                        return Some(Field::$may as usize);
                    })*
                    None
                }

                struct Visitor;

                impl<'de> serde::de::Visitor<'de> for Visitor {
                    type Value = $name;

                    fn expecting(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                        f.write_str("an object")
                    }

                    fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<$name, A::Error> {
                        $(let mut $must: Option<$must_type> = None;)*
                        $(let mut $may: Option<$may_type> = None;)*
                        let mut fields = crate::types::fields::Fields::new(map, NAMES, index);
                        while let Some(field) = fields.next() {
                            $(if field == Field::$must as usize { fields.present(&mut $must); })*
                            $(if field == Field::$may as usize { record!(@read fields $may $($may_rule)?); })*
                        }
                        fields.end()?;
                        Ok($name {
                            $($must: record!(@required $must $($must_rule)?),)*
                            $($may,)*
                        })
                    }
                }

                deserializer.deserialize_struct(stringify!($name), NAMES, Visitor)
            }
        }
    };
    (@argument $type:ty) => { $type };
    (@argument $type:ty, $argument:ty) => { $argument };
    (@name $field:ident $name:literal) => { $name };
    (@name $field:ident) => {{
        const CAMEL_CASE: &crate::types::fields::CamelCase<{ stringify!($field).len() }> =
            &crate::types::fields::CamelCase::of(stringify!($field));
        const NAME: &str = CAMEL_CASE.as_str();
        NAME
    }};
    (@read $fields:ident $field:ident null) => { $fields.present(&mut $field) };
    (@read $fields:ident $field:ident $($number:ident)?) => { $fields.optional(&mut $field) };
    (@required $field:ident default) => { $field.unwrap_or_default() };
    (@required $field:ident $($number:ident)?) => {
        crate::types::fields::required($field, NAMES[Field::$field as usize])?
    };
    (@write $members:ident.required, $name:expr, $self:ident.$field:ident, number) => {
        $members.required($name, &crate::types::fields::Number($self.$field))
    };
    (@write $members:ident.optional, $name:expr, $self:ident.$field:ident, number) => {
        $members.optional($name, &$self.$field.map(crate::types::fields::Number))
    };
    (@write $members:ident.$method:ident, $name:expr, $self:ident.$field:ident $(, $rule:ident)?) => {
        $members.$method($name, &$self.$field)
    };
}

/// Declares a word of an open list. An unknown word is kept.
macro_rules! open {
    ($(#[$attribute:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$attribute])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$doc])* $variant,)*
            /// An unknown word.
            Other(alloc::boxed::Box<str>),
        }

        impl $name {
            /// The word in JSON.
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

/// Implements `From` for each variant of an enum, and `Serialize`, which writes the value of the variant. The enum also
/// has the variant `Other` for the JSON text of an unknown kind.
macro_rules! variants {
    ($name:ident { $($variant:ident($type:ty),)* }) => {
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
    };
}

/// Declares a union of records with the tag `type`. The records write the tag themselves; the union reads it, and a record alone
/// ignores it. An unknown kind is kept unchanged.
macro_rules! union {
    (
        $(#[$attribute:meta])*
        $name:ident { $($(#[$doc:meta])* $word:literal => $variant:ident($type:ty),)* }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$doc])* $variant($type),)*
            /// An unknown kind, unchanged.
            Other(crate::Raw),
        }

        variants! { $name { $($variant($type),)* } }

        impl crate::json::Tagged for $name {
            fn read<'de, D: serde::Deserializer<'de>>(kind: &str, deserializer: D) -> Result<Self, D::Error> {
                match kind {
                    $($word => serde::Deserialize::deserialize(deserializer).map(Self::$variant),)*
                    _ => serde::Deserialize::deserialize(deserializer).map(Self::Other),
                }
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                crate::json::deserialize_tagged(deserializer)
            }
        }
    };
}
