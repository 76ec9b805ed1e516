//! Tests of `mcpjoin completions` and `mcpjoin man`: they contain every verb, and the programs that read them accept them.

use super::support::{command, line, run, start};

/// The verbs in the help text.
fn verbs() -> Vec<String> {
    let help = line("--help").exits(0).stdout;
    let verbs = help.split("Verbs:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    verbs.lines().map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
}

#[test]
fn every_shell_completes_every_verb() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = run(["completions", shell]).exits(0).stdout;
        assert!(script.contains("MCPJOIN_COMPLETE"), "{shell}: {script}");
        let mut asked = command(["--", "mcpjoin", ""]);
        asked.env("MCPJOIN_COMPLETE", shell).env("_CLAP_COMPLETE_INDEX", "1");
        let completed = start(asked).finish().exits(0).stdout;
        for verb in verbs() {
            assert!(completed.contains(&verb), "{shell} does not complete {verb}: {completed}");
        }
    }
    run(["completions", "tcsh"]).exits(2).says(&["possible values", "bash"]);
}

#[test]
fn there_is_a_page_for_each_verb() {
    let page = line("man").exits(0).stdout;
    assert!(page.contains(".TH mcpjoin 1"), "{page}");
    for verb in verbs() {
        assert!(page.contains(&format!("mcpjoin\\-{verb}(1)")), "{verb} is missing in {page}");
        let page = run(["man", &verb]).exits(0).stdout;
        assert!(page.contains(&format!(".TH mcpjoin-{verb} 1")), "{page}");
    }
    line("man nothing").exits(2).says(&["no verb nothing"]);
    assert!(line("man servers convert").exits(0).stdout.contains(".TH mcpjoin-servers-convert 1"));
    line("man servers nothing").exits(2).says(&["no verb servers nothing"]);
}
