//! Tests of the value that a login shell prints, and of shells that print none.

use std::ffi::OsStr;
use std::time::Duration;

use super::super::World;
use super::super::shell::{SHELL_TIMEOUT, ShellCommand};
use super::Folder;

const PATH: &str = "/usr/bin:/bin";
/// The first lines of many start files: the lines after them are for terminals only.
const GUARD: &str = "case $- in\n    *i*) ;;\n      *) return;;\nesac\n";

async fn ask(world: &World, interactive: bool, timeout: Duration) -> Result<String, String> {
    let command = ShellCommand::new(world, interactive)?;
    let path = command.run(world, OsStr::new(PATH), timeout).await?;
    Ok(path.into_string().unwrap())
}

/// Runs the bash of this machine with this ~/.bash_profile.
async fn bash(name: &str, profile: &str, interactive: bool, timeout: Duration) -> Result<String, String> {
    let folder = Folder::new(name);
    folder.file("home/u/.bash_profile", profile);
    folder.file("home/u/.bashrc", format!("{GUARD}PATH=/rc:$PATH\n"));
    let home = folder.path().join("home/u");
    let world = World::below("/").with_variable("HOME", home).with_variable("SHELL", "/bin/bash");
    ask(&world, interactive, timeout).await
}

/// Runs a fake shell of that name with this body.
async fn stand_in(shell: &str, body: &str) -> Result<String, String> {
    let folder = Folder::new("stand-in");
    folder.program(&format!("bin/{shell}"), body);
    let world = folder.world().with_variable("SHELL", format!("/bin/{shell}"));
    ask(&world, true, SHELL_TIMEOUT).await
}

#[tokio::test]
async fn bash_reads_the_files_of_a_terminal_or_of_a_login() {
    let profile = ". ~/.bashrc\nPATH=/profile:$PATH\n";
    let path = bash("bash-terminal", profile, true, SHELL_TIMEOUT).await.unwrap();
    assert!(path.starts_with("/profile:/rc:"), "{path}");
    let path = bash("bash-login", profile, false, SHELL_TIMEOUT).await.unwrap();
    assert!(path.starts_with("/profile:") && !path.contains("/rc"), "{path}");
}

/// Text, input, aliases, functions, another directory, a flood of output.
#[tokio::test]
async fn start_files_cannot_hide_the_value() {
    for (name, line) in [
        ("text", "echo welcome; echo mcpjoin-0123=/wrong=mcpjoin-0123; printf 'no end of line'; echo x >&2"),
        ("input", "read -r line; read -r -t 1 line < /dev/tty"),
        ("functions", "printf() { echo mine; }; echo() { :; }; alias printf=false"),
        ("directory", "cd /nowhere; cd /; mesg n"),
        ("verbose", "set -vx"),
        ("flood", "head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2"),
        ("output", "exec 3>&1; echo moved >&3"),
    ] {
        let profile = format!("{line}\nPATH=/found:$PATH\n");
        let path = bash(name, &profile, true, SHELL_TIMEOUT).await;
        assert!(path.as_ref().is_ok_and(|path| path.starts_with("/found:")), "{name}: {path:?}");
    }
}

/// The error names the command line and the failure.
#[tokio::test]
async fn a_shell_without_a_value_is_an_error() {
    let short = Duration::from_millis(300);
    for (name, line, timeout, says) in [
        ("exit", "exit 3", SHELL_TIMEOUT, "/bin/bash -ilc ended with exit code 3"),
        ("last-words", "echo 'no theme' >&2; exit 3", SHELL_TIMEOUT, "ended with exit code 3: no theme"),
        ("signal", "kill -9 $$", SHELL_TIMEOUT, "ended with signal 9"),
        ("exec", "exec true", SHELL_TIMEOUT, "exited with code 0 and printed no PATH"),
        ("silent", "exec > /dev/null", SHELL_TIMEOUT, "exited with code 0 and printed no PATH"),
        ("empty", "PATH=", SHELL_TIMEOUT, "printed an empty PATH"),
        ("status", "trap 'exit 4' EXIT", SHELL_TIMEOUT, "ended with exit code 4"),
        ("late-flood", "trap 'head -c 100000 /dev/zero' EXIT", SHELL_TIMEOUT, "printed no PATH"),
        ("hang", "sleep 600", short, "/bin/bash -ilc did not exit within 0.3 s"),
        ("endless-flood", "yes", short, "did not exit within 0.3 s"),
        ("late", "trap 'sleep 600' EXIT", short, "did not exit within 0.3 s"),
    ] {
        let problem = bash(name, &format!("{line}\n"), true, timeout).await.unwrap_err();
        assert!(problem.contains(says), "{name}: {problem}");
    }
    let folder = Folder::new("no-shell");
    folder.file("bin/zsh", "no program");
    folder.file("usr/bin/xonsh", "");
    for (shell, says) in [
        (None, "SHELL is not set"),
        (Some(""), "SHELL is not set"),
        (Some("bash"), "SHELL is bash, which is not an absolute path"),
        (Some("/usr/bin/xonsh"), "SHELL is /usr/bin/xonsh, which mcpjoin does not support"),
        (Some("/usr/bin/fish"), "/usr/bin/fish -ilc: cannot start"),
        (Some("/bin/zsh"), "is not executable"),
    ] {
        let world = folder.world().without_variable("SHELL");
        let world = match shell {
            Some(shell) => world.with_variable("SHELL", shell),
            None => world,
        };
        let problem = ask(&world, true, SHELL_TIMEOUT).await.unwrap_err();
        assert!(problem.contains(says), "{shell:?}: {problem}");
    }
}

#[tokio::test]
async fn each_shell_is_run_with_its_own_syntax() {
    let posix = r#"command printf "%s=%s=%s" MARKER "$PATH" MARKER"#;
    let nu = r#"print (["MARKER" ($env.PATH | str join (char esep)) "MARKER"] | str join "=")"#;
    for (shell, interactive, words) in [
        ("bash", true, vec!["-ilc", posix]),
        ("zsh", true, vec!["-ilc", posix]),
        ("zsh", false, vec!["-lc", posix]),
        ("fish", true, vec!["-ilc", r#"builtin printf "%s=%s=%s" MARKER "$PATH" MARKER"#]),
        ("nu", true, vec!["-l", "-c", nu]),
        ("tcsh", true, vec!["-ic", r#"echo "MARKER""=""$PATH""=""MARKER""#]),
        ("csh", false, vec!["-c", r#"echo "MARKER""=""$PATH""=""MARKER""#]),
        (
            "pwsh",
            true,
            vec!["-Login", "-Command", "[Console]::Out.Write('MARKER' + '=' + $env:PATH + '=' + 'MARKER')"],
        ),
    ] {
        let folder = Folder::new("syntax");
        let words_file = folder.path().join("words");
        // It prints its own command line before the value, as a verbose shell does.
        let body = format!(
            "printf '%s\\n' \"$@\" > '{}'\nprintf '%s\\n' \"$@\"\n\
             marker=$(printf %s \"$*\" | grep -o 'mcpjoin-[0-9a-f]*' | head -n 1)\n\
             printf '%s=%s=%s' \"$marker\" /from/the/shell \"$marker\"",
            words_file.display()
        );
        folder.program(&format!("bin/{shell}"), &body);
        let world = folder.world().with_variable("SHELL", format!("/bin/{shell}"));
        let path = ask(&world, interactive, SHELL_TIMEOUT).await;
        assert_eq!(path.as_deref(), Ok("/from/the/shell"), "{shell}");
        let said = std::fs::read_to_string(&words_file).unwrap();
        let marker = said.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
        let marker = marker.into_iter().find(|word| word.starts_with("mcpjoin-")).unwrap();
        assert_eq!(marker.len(), "mcpjoin-".len() + 32, "{marker}");
        let said: Vec<String> = said.lines().map(|line| line.replace(marker, "MARKER")).collect();
        assert_eq!(said, words, "{shell}");
    }
}

#[tokio::test]
async fn the_shell_gets_our_variables_except_guards_of_start_files() {
    let folder = Folder::new("variables");
    folder.program(
        "bin/zsh",
        "[ -z \"$__ETC_PROFILE_DONE\" ] && [ \"$OWN\" = own ] && [ -n \"$MCPJOIN_CHILD\" ] || exit 9\n\
         [ \"$(pwd -P)\" = \"$(cd \"$REAL\" && pwd -P)\" ] || exit 8\neval \"$2\"",
    );
    let world = folder
        .world()
        .with_variable("SHELL", "/bin/zsh")
        .with_variable("__ETC_PROFILE_DONE", "1")
        .with_variable("REAL", folder.path().join("home/u"))
        .with_variable("OWN", "own");
    assert_eq!(ask(&world, true, SHELL_TIMEOUT).await.as_deref(), Ok(PATH));
}

/// Job control, and a prompt on /dev/tty, would stop a shell in the background of a terminal.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_shell_leads_a_session_without_a_terminal() {
    let leads = "[ \"$(cut -d ' ' -f 6 /proc/$$/stat)\" = $$ ] || exit 9\n[ \"$(cut -d ' ' -f 7 /proc/$$/stat)\" = 0 ] || exit 8";
    assert_eq!(stand_in("zsh", &format!("{leads}\neval \"$2\"")).await.as_deref(), Ok(PATH));
}

/// Background processes of start files are killed with the shell, whether it exits or is killed.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn processes_of_start_files_are_killed() {
    let folder = Folder::new("background");
    let pids = folder.path().join("pids");
    for (end, timeout) in [("PATH=/found:$PATH", SHELL_TIMEOUT), ("sleep 600", Duration::from_millis(500))] {
        let profile = format!(
            "sleep 600 & echo $! >> '{0}'\nsetsid sleep 600 & echo $! >> '{0}'\n\
             (trap '' TERM HUP; sleep 600) & echo $! >> '{0}'\n{end}\n",
            pids.display()
        );
        let path = bash("background", &profile, true, timeout).await;
        assert_eq!(path.is_ok(), timeout == SHELL_TIMEOUT, "{path:?}");
        let text = std::fs::read_to_string(&pids).unwrap();
        assert_eq!(text.lines().count(), 3);
        for pid in text.lines() {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            // A zombie has exited as well.
            let state = stat.rsplit_once(") ").map_or("gone", |(_, rest)| &rest[..1]);
            assert!(matches!(state, "gone" | "Z" | "X"), "{pid}: {stat}");
        }
        std::fs::remove_file(&pids).unwrap();
    }
}
