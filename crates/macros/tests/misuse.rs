//! Tests that misuse of the macros is a compile error that names the cure, at the place that is wrong.
//!
//! Each program in `misuse/` has the messages of the compiler beside it. After a change of a message:
//! `TRYBUILD=overwrite cargo test -p mcpjoin-macros`, and read the difference.

#[test]
fn misuse_is_a_compile_error_that_names_the_cure() {
    trybuild::TestCases::new().compile_fail("tests/misuse/*.rs");
}
