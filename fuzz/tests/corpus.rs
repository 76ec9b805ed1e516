//! Each fuzz target on every input of its corpus.

use mcpjoin_fuzz::{TARGETS, corpus};

fn replay(name: &str) {
    let (_, target) = TARGETS.iter().find(|target| target.0 == name).expect("a target");
    let inputs = corpus::inputs(name).expect("a corpus");
    assert!(!inputs.is_empty(), "an empty corpus shows nothing");
    target(&[]);
    for (number, input) in inputs.iter().enumerate() {
        let outcome = std::panic::catch_unwind(|| target(input));
        assert!(outcome.is_ok(), "{name} fails for line {} of its corpus", number + 1);
    }
}

macro_rules! replays {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                replay(stringify!($name));
            }
        )*

        #[test]
        fn every_target_is_replayed() {
            assert_eq!(TARGETS.map(|target| target.0), [$(stringify!($name)),*]);
        }
    };
}

replays! { auth consent decode gateway http lines prefixed rules schemas session sse values }
