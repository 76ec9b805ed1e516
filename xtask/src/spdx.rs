//! Parses licence expressions of packages: `MIT OR Apache-2.0`, `(MIT AND Zlib) OR BSD-3-Clause`, and the old form
//! `MIT/Apache-2.0`. <https://spdx.github.io/spdx-spec/v2.3/SPDX-license-expressions/>

use anyhow::{Context, Result, bail};

/// Whether an expression can be satisfied with the licences that `allowed` accepts.
pub(crate) fn satisfied(expression: &str, allowed: &dyn Fn(&str) -> bool) -> Result<bool> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    let verdict = either(&mut rest, allowed).with_context(|| format!("licence `{expression}`"))?;
    if let [word, ..] = rest {
        bail!("licence `{expression}`: `{word}` does not belong there");
    }
    Ok(verdict)
}

fn either(rest: &mut &[&str], allowed: &dyn Fn(&str) -> bool) -> Result<bool> {
    let mut verdict = both(rest, allowed)?;
    while let ["OR", after @ ..] = *rest {
        *rest = after;
        verdict |= both(rest, allowed)?;
    }
    Ok(verdict)
}

fn both(rest: &mut &[&str], allowed: &dyn Fn(&str) -> bool) -> Result<bool> {
    let mut verdict = one(rest, allowed)?;
    while let ["AND", after @ ..] = *rest {
        *rest = after;
        verdict &= one(rest, allowed)?;
    }
    Ok(verdict)
}

fn one(rest: &mut &[&str], allowed: &dyn Fn(&str) -> bool) -> Result<bool> {
    match *rest {
        ["(", after @ ..] => {
            *rest = after;
            let verdict = either(rest, allowed)?;
            let [")", after @ ..] = *rest else { bail!("a bracket is not closed") };
            *rest = after;
            Ok(verdict)
        }
        [licence, "WITH", exception, after @ ..] => {
            *rest = after;
            // An exception only adds rights: the licence alone is enough.
            Ok(allowed(licence) || allowed(&format!("{licence} WITH {exception}")))
        }
        ["AND" | "OR" | "WITH" | ")", ..] | [] => bail!("a licence is missing"),
        [licence, after @ ..] => {
            *rest = after;
            Ok(allowed(licence))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::satisfied;

    #[test]
    fn expressions_are_checked() {
        let allowed = |licence: &str| ["MIT", "Apache-2.0", "Zlib", "X WITH Y"].contains(&licence);
        let judge = |expression| satisfied(expression, &allowed).unwrap();
        assert!(judge("MIT"));
        assert!(judge("MIT/GPL-3.0"));
        assert!(judge("GPL-3.0 OR MIT"));
        assert!(judge("(MIT OR GPL-3.0) AND Zlib"));
        assert!(judge("Apache-2.0 WITH LLVM-exception"));
        assert!(judge("X WITH Y"));
        assert!(!judge("GPL-3.0"));
        assert!(!judge("MIT AND GPL-3.0"));
        assert!(!judge("GPL-3.0 OR MIT AND MPL-2.0"));
        assert!(!judge("X"));
        for broken in ["", "MIT OR", "(MIT", "MIT MIT", "AND MIT", "MIT)"] {
            assert!(satisfied(broken, &allowed).is_err(), "{broken}");
        }
    }
}
