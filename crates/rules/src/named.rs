//! Enums whose variants have a name in reports, in options or in transcripts.

/// Declares an enum with the name of each variant behind it, a constant with all variants, and `as_str`.
macro_rules! named {
    (
        $(#[$doc:meta])*
        $vis:vis enum $type:ident { $( $(#[$variant_doc:meta])* $variant:ident = $name:literal, )+ }
    ) => {
        $(#[$doc])*
        $vis enum $type {
            $( $(#[$variant_doc])* $variant, )+
        }

        impl $type {
            /// Every variant, in the order of the declaration.
            pub const ALL: [Self; [$( Self::$variant, )+].len()] = [$( Self::$variant, )+];

            /// The name of a variant. It stays the same in later releases.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $( Self::$variant => $name, )+
                }
            }
        }
    };
}
