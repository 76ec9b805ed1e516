//! A line-by-line comparison of two texts.
//!
//! Used by `sentences`, and by `servers add` and `servers remove`. Does no I/O.

/// The maximum number of comparisons of two lines. Above it all lines of the old text are removed and all of the new
/// text are added.
const MAX_COMPARISONS: usize = 1 << 20;

/// A line, or several equal lines, of two texts.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::commands) enum Line<'a> {
    Removed(&'a str),
    Added(&'a str),
    /// The number of equal lines.
    Same(usize),
}

/// The lines of both texts in order. Removed lines come before the lines that replace them.
pub(in crate::commands) fn line_diff<'a>(old: &'a str, new: &'a str) -> Vec<Line<'a>> {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.split('\n').collect(), new.split('\n').collect());
    let before = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let (old, new) = (&old[before..], &new[before..]);
    let after = old.iter().rev().zip(new.iter().rev()).take_while(|(old, new)| old == new).count();
    let (old, new) = (&old[..old.len() - after], &new[..new.len() - after]);
    let mut out = Vec::new();
    same(&mut out, before);
    if old.len().saturating_mul(new.len()) <= MAX_COMPARISONS {
        between(&mut out, old, new);
    } else {
        out.extend(old.iter().map(|line| Line::Removed(line)));
        out.extend(new.iter().map(|line| Line::Added(line)));
    }
    same(&mut out, after);
    out
}

fn same(out: &mut Vec<Line<'_>>, count: usize) {
    match out.last_mut() {
        _ if count == 0 => {}
        Some(Line::Same(before)) => *before += count,
        _ => out.push(Line::Same(count)),
    }
}

/// Compares by the longest common subsequence of lines.
fn between<'a>(out: &mut Vec<Line<'a>>, old: &[&'a str], new: &[&'a str]) {
    // The length of the longest common subsequence of the lines from `row` of the old and `column` of the new text on.
    let width = new.len() + 1;
    let mut longest = vec![0_u32; (old.len() + 1) * width];
    for row in (0..old.len()).rev() {
        for column in (0..new.len()).rev() {
            longest[row * width + column] = if old[row] == new[column] {
                longest[(row + 1) * width + column + 1] + 1
            } else {
                longest[(row + 1) * width + column].max(longest[row * width + column + 1])
            };
        }
    }
    let (mut row, mut column) = (0, 0);
    while row < old.len() || column < new.len() {
        let down = longest.get((row + 1) * width + column).copied().filter(|_| row < old.len());
        let right = longest.get(row * width + column + 1).copied().filter(|_| column < new.len());
        match (down, right) {
            (Some(_), Some(_)) if old[row] == new[column] => {
                same(out, 1);
                (row, column) = (row + 1, column + 1);
            }
            (Some(down), right) if right.is_none_or(|right| down >= right) => {
                out.push(Line::Removed(old[row]));
                row += 1;
            }
            _ => {
                out.push(Line::Added(new[column]));
                column += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Line, MAX_COMPARISONS, line_diff};

    fn in_signs(old: &str, new: &str) -> String {
        let one = |line: &Line<'_>| match line {
            Line::Removed(line) => format!("-{line}"),
            Line::Added(line) => format!("+{line}"),
            Line::Same(count) => format!("={count}"),
        };
        line_diff(old, new).iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn lines_that_have_gone_stand_before_those_that_have_come() {
        for (old, new, expected) in [
            ("a", "a", "=1"),
            ("a", "b", "-a +b"),
            ("", "b", "- +b"),
            ("a\nb\nc", "a\nx\nc", "=1 -b +x =1"),
            ("a\nb", "a\nb\nc\nd", "=2 +c +d"),
            ("a\nb\nc\nd", "d", "-a -b -c =1"),
            ("1\na\n2\nb\n3", "0\na\n2\nc\n4", "-1 +0 =2 -b -3 +c +4"),
            ("a\r\nb", "a\nb", "-a\r +a =1"),
        ] {
            assert_eq!(in_signs(old, new), expected, "{old:?} {new:?}");
        }
    }

    #[test]
    fn texts_that_are_too_long_to_compare_are_shown_as_a_whole() {
        let count = 1100;
        assert!(count * count > MAX_COMPARISONS);
        let old: Vec<String> = (0..count).map(|line| format!("o{line}")).collect();
        let new: Vec<String> = (0..count).map(|line| format!("n{line}")).collect();
        let (old, new) = (old.join("\n"), new.join("\n"));
        let lines = line_diff(&old, &new);
        assert_eq!(
            (lines.len(), &lines[0], &lines[count]),
            (2 * count, &Line::Removed("o0"), &Line::Added("n0"))
        );
    }
}
