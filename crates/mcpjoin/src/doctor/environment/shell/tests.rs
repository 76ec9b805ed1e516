//! What a file of settings makes of `PATH`.

use std::fs;
use std::path::Path;

use super::super::tests::Folder;
use super::{Kind, Shell};

/// `PATH` after a file with this text, beginning with `/bin`, and what was not computed.
fn path(folder: &Folder, kind: Kind, interactive: bool, text: &str) -> (String, Vec<String>) {
    folder.file("home/u/rc", text);
    let world = folder.world().with_user(1000);
    let mut shell = Shell::new(&world, kind, interactive, "/bin");
    assert!(shell.source(Path::new("/home/u/rc")));
    (shell.path().to_owned(), shell.unknown.clone())
}

#[test]
fn assignments_conditions_and_functions_are_followed() {
    let folder = Folder::new("shell");
    folder.file("home/u/bin/x", "");
    folder.file("etc/profile.d/10-a.sh", "PATH=\"$PATH:/ten\"\n");
    folder.file("etc/profile.d/20-b.sh", "PATH=$PATH:/twenty");
    folder.file("etc/profile.d/30-c.csh", "set path = ($path /csh)");
    for (text, expected) in [
        ("PATH=/a:$PATH", "/a:/bin"),
        ("export PATH=\"$HOME/bin:${PATH}\" EDITOR=vi", "/home/u/bin:/bin"),
        ("export PATH=~/.local/bin:$PATH:~", "/home/u/.local/bin:/bin:/home/u"),
        ("PATH='/a b':$PATH # and a comment: PATH=/no", "/a b:/bin"),
        ("PATH=/a:\\\n$PATH; export PATH", "/a:/bin"),
        ("PATH+=:/a", "/bin:/a"),
        ("if [ -d \"$HOME/bin\" ] ; then\n  PATH=\"$HOME/bin:$PATH\"\nfi", "/home/u/bin:/bin"),
        (
            "if [ -d /nowhere ]; then PATH=/a; elif test -e ~/bin/x && ! false; then PATH=/b; else PATH=/c; fi",
            "/b",
        ),
        ("[ -d ~/bin ] && PATH=/a:$PATH || PATH=/b", "/a:/bin"),
        ("[[ -d ~/bin && $PATH != */a* ]] && PATH=/a:$PATH", "/a:/bin"),
        ("if [ \"$(id -u)\" -eq 0 ]; then PATH=/root; else PATH=/user; fi", "/user"),
        ("if [ `id -u` = 1000 ]; then PATH=/a; fi", "/a"),
        ("for i in /etc/profile.d/*.sh; do if [ -r $i ]; then . $i; fi; done; unset i", "/bin:/ten:/twenty"),
        ("for d in /a /b; do PATH=$PATH:$d; done", "/bin:/a:/b"),
        (
            "add () {\n case \":$PATH:\" in\n *:\"$1\":*) ;;\n *) PATH=\"${PATH:+$PATH:}$1\" ;;\n esac\n}\nadd /a; add /a; add /bin",
            "/bin:/a",
        ),
        ("function add { PATH=$1:$PATH; }\nadd /a", "/a:/bin"),
        (
            "case \":${PATH}:\" in *:\"$HOME/.cargo/bin\":*) ;; *) export PATH=\"$HOME/.cargo/bin:$PATH\" ;; esac",
            "/home/u/.cargo/bin:/bin",
        ),
        ("cat <<EOF\nPATH=/no\nEOF\nPATH=/a:$PATH 2>/dev/null", "/a:/bin"),
        ("PATH=${NOPE:-/a}:${NOPE-/b}:${PATH:+/c}", "/a:/b:/c"),
        ("(PATH=/no); echo x | PATH=/no cat; PATH=/a:$PATH", "/a:/bin"),
        ("a=(1 2 3); alias ll='ls -l'; PATH=/a:$PATH", "/a:/bin"),
        ("return; PATH=/no", "/bin"),
        ("PATH=/no command env", "/bin"),
        // Positional parameters and loops.
        ("add() { for d in \"$@\"; do PATH=$PATH:$d; done; }\nadd /a '/b c'", "/bin:/a:/b c"),
        ("add() { for d; do PATH=$PATH:$d; done; }\nadd /a /b", "/bin:/a:/b"),
        ("add() { shift; PATH=$1:$PATH; }\nadd /a /b", "/b:/bin"),
        ("set -- /a /b; shift 1; PATH=$1:$PATH", "/b:/bin"),
        (
            "for d in /a /b /c; do [ $d = /a ] && continue; PATH=$PATH:$d; [ $d = /b ] && break; done",
            "/bin:/b",
        ),
        // What is written in no simple way, and what comes after it.
        ("[[ $HOME =~ ^[[:space:]]+$ ]]; PATH=/a:$PATH", "/a:/bin"),
        ("x=$'it\\'s'; PATH=/a:$PATH", "/a:/bin"),
        ("x=$(echo $'it\\'s'); PATH=/a:$PATH", "/a:/bin"),
        ("for d in /x /y; do thing && break; x=$d; done; PATH=/a:$PATH", "/a:/bin"),
        (
            "thing && eval \"$(dircolors -b)\"; thing && . /nowhere; thing && export A=1; PATH=/a:$PATH",
            "/a:/bin",
        ),
    ] {
        let (found, unknown) = path(&folder, Kind::Bash, false, text);
        assert_eq!((found.as_str(), &unknown[..]), (expected, &[][..]), "{text}");
    }
}

#[test]
fn what_stands_behind_the_guard_of_bashrc_is_for_terminals() {
    let folder = Folder::new("shell-guard");
    for guard in [
        "case $- in\n    *i*) ;;\n      *) return;;\nesac",
        "[ -z \"$PS1\" ] && return",
        "[[ $- != *i* ]] && return",
        "if [[ $- != *i* ]] ; then\n\treturn\nfi",
        "[[ $- == *i* ]] || return 0",
    ] {
        let text = format!("{guard}\nexport PATH=/a:$PATH\n");
        assert_eq!(path(&folder, Kind::Bash, true, &text), ("/a:/bin".into(), vec![]), "{guard}");
        assert_eq!(path(&folder, Kind::Bash, false, &text), ("/bin".into(), vec![]), "{guard}");
    }
}

#[test]
fn version_managers_are_known_without_being_run() {
    let folder = Folder::new("shell-managers");
    folder.file("home/u/.nvm/nvm.sh", "nvm() { this is ( not read\n");
    folder.file("home/u/.nvm/alias/default", "lts/*\n");
    folder.file("home/u/.nvm/alias/lts/*", "lts/iron\n");
    folder.file("home/u/.nvm/alias/lts/iron", "v20.9.0\n");
    for version in ["v18.20.0", "v20.9.0", "v20.11.1"] {
        folder.file(&format!("home/u/.nvm/versions/node/{version}/bin/node"), "");
    }
    folder.program("home/u/.pyenv/bin/pyenv", "exit 1");
    folder.file("home/u/.asdf/asdf.sh", "");
    let nvm = "export NVM_DIR=\"$HOME/.nvm\"\n[ -s \"$NVM_DIR/nvm.sh\" ] && \\. \"$NVM_DIR/nvm.sh\"  # This loads nvm\n\
               [ -s \"$NVM_DIR/bash_completion\" ] && \\. \"$NVM_DIR/bash_completion\"\n";
    let pyenv = "export PYENV_ROOT=\"$HOME/.pyenv\"\ncommand -v pyenv >/dev/null || export PATH=\"$PYENV_ROOT/bin:$PATH\"\n\
                 eval \"$(pyenv init -)\"\n";
    for (text, expected) in [
        (nvm, "/home/u/.nvm/versions/node/v20.9.0/bin:/bin"),
        (pyenv, "/home/u/.pyenv/shims:/home/u/.pyenv/bin:/bin"),
        (". ~/.asdf/asdf.sh", "/home/u/.asdf/shims:/home/u/.asdf/bin:/bin"),
        ("eval \"$(fnm env)\"", "/bin"),
        ("eval \"$(dircolors -b)\"", "/bin"),
    ] {
        assert_eq!(path(&folder, Kind::Bash, true, text), (expected.into(), vec![]), "{text}");
    }
    // An alias that is a part of a version means the newest of it.
    fs::write(folder.path().join("home/u/.nvm/alias/default"), "20").unwrap();
    assert_eq!(path(&folder, Kind::Bash, true, nvm).0, "/home/u/.nvm/versions/node/v20.11.1/bin:/bin");
}

#[test]
fn zsh_has_path_as_an_array_too() {
    let folder = Folder::new("shell-zsh");
    for (text, expected) in [
        ("path=(~/bin $path /a)\nexport PATH", "/home/u/bin:/bin:/a"),
        ("path+=(/a)\ntypeset -U path PATH", "/bin:/a"),
        ("export PATH=/a:$PATH", "/a:/bin"),
    ] {
        assert_eq!(path(&folder, Kind::Zsh, true, text), (expected.into(), vec![]), "{text}");
    }
}

#[test]
fn what_cannot_be_computed_is_told_with_its_line() {
    let folder = Folder::new("shell-unknown");
    folder.program("bin/thing", "");
    folder.file("etc/more", "PATH=/more\n");
    for (text, expected, told) in [
        ("\nPATH=$(thing --path):$PATH", "/bin", "rc:2: a part of PATH comes from a command"),
        ("if thing; then\n PATH=/a:$PATH\nfi", "/bin", "rc:2: PATH may be set there under a condition"),
        ("[[ -d ~/no || ( -d ~/bin ) ]] && PATH=/a", "/bin", "rc:1: PATH may be set there under a condition"),
        ("thing && PATH=/a", "/bin", "rc:1: PATH may be set there under a condition"),
        ("while read -r x; do PATH=$x:$PATH; done", "/bin", "rc:1: PATH may be set there"),
        ("thing && . /etc/more", "/bin", "rc:1: PATH may be set there"),
        ("if thing; then source /etc/more; fi", "/bin", "rc:1: PATH may be set there"),
        ("thing && eval \"$(thing activate)\"", "/bin", "rc:1: PATH may be set there"),
        ("f() { PATH=/a; }; g() { f; }\nthing && g", "/bin", "rc:2: PATH may be set there"),
        ("if thing; then f() { PATH=/a; }; fi\nf", "/bin", "rc:2: PATH may be set by a function"),
        ("for d in /a; do\nthing && break\nPATH=/bin\ndone", "/bin", "rc:2: PATH may be set there"),
        ("f() { PATH=/a; }\n)\nf", "/bin", "rc:2: what follows is not understood"),
        (")\n. /etc/more", "/bin", "rc:1: what follows is not understood"),
        (")\neval $x", "/bin", "rc:1: what follows is not understood"),
        ("eval 'PATH=/a:$PATH'", "/bin", "rc:1: what `eval` runs there"),
        ("set -- $(thing); PATH=$1:/bin", "/bin", "rc:1: a part of PATH"),
        ("IFS=:; for d in $PATH; do PATH=$PATH:$d; done", "/bin", "rc:1: a part of PATH"),
        ("eval \"$(thing activate)\"", "/bin", "rc:1: what `eval` runs there"),
        ("PATH=/a:$PATH\n)\nPATH=/b", "/a:/bin", "rc:2: what follows is not understood"),
    ] {
        let (found, unknown) = path(&folder, Kind::Bash, true, text);
        assert_eq!(found, expected, "{text}");
        assert!(unknown.len() == 1 && unknown[0].contains(told), "{text}: {unknown:?}");
    }
}

#[test]
fn no_text_takes_for_ever_or_deep() {
    let folder = Folder::new("shell-hostile");
    for text in [
        ". /home/u/rc",
        "f() { f; }; f",
        &"! ".repeat(20_000),
        &"{ ".repeat(100_000),
        &"if ".repeat(100_000),
        &"$(".repeat(100_000),
        &"${x:-".repeat(50_000),
        &format!("x={}", "$x$x".repeat(1000)),
        "x=a; for a in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25; do x=$x$x$x$x; done; PATH=$x",
        "case x in (",
        "for",
        "x=(",
        "cat <<EOF",
        "\"",
        "'",
        "`",
        "${",
        "[[ a =~",
        "function",
        "2>",
        ">&-",
        "é=1; PATH=/ü:$PATH",
    ] {
        let _ = path(&folder, Kind::Bash, true, text);
        let _ = path(&folder, Kind::Zsh, false, text);
    }
    // Many words of a long text.
    let doubled = "A=$A$A;".repeat(12);
    for line in [
        "x=1 ".to_owned() + &"$A ".repeat(100_000),
        "for x in ".to_owned() + &"$A ".repeat(100_000) + "; do y=$x; done",
    ] {
        let text = format!("A=0123456789abcdef;{doubled}\n{line}\nPATH=/a");
        let (_, unknown) = path(&folder, Kind::Bash, true, &text);
        assert!(unknown.iter().any(|told| told.contains("more is done there")), "{unknown:?}");
    }
    // Every beginning of a file of many forms.
    let whole = "if [ -d \"$HOME\" ]; then . ~/x || { PATH=${PATH:+$PATH:}`id -u`; }; fi 2>&1; case $- in *[!a-c]i*) f() { return; } ;; esac <<E\nx\nE\n";
    for (end, _) in whole.char_indices() {
        let _ = path(&folder, Kind::Bash, true, &whole[..end]);
    }
}

/// `PATH` of a login whose shell has these files, beginning with `/bin`.
fn login(folder: &Folder, kind: Kind, interactive: bool) -> (String, Vec<String>) {
    let world = folder.world().with_user(1000);
    let mut shell = Shell::new(&world, kind, interactive, "/bin");
    match kind {
        Kind::Fish => super::fish::login(&mut shell),
        _ => super::nu::login(&mut shell),
    }
    (shell.path().to_owned(), shell.unknown.clone())
}

#[test]
fn what_fish_makes_of_path_is_followed() {
    let folder = Folder::new("fish");
    for there in ["bin", "go/bin", ".cargo/bin", ".local/bin", "last"] {
        folder.file(&format!("home/u/{there}/x"), "");
    }
    folder.program("opt/homebrew/bin/brew", "");
    let config = "home/u/.config/fish";
    for (text, expected) in [
        ("set -gx PATH /a $PATH # first\n", "/a:/bin"),
        ("set -x PATH $PATH ~/bin \"$HOME/go/bin\"\n", "/bin:/home/u/bin:/home/u/go/bin"),
        ("set --export --prepend PATH /p:/q; set -a PATH /z\n", "/p:/q:/bin:/z"),
        ("fish_add_path ~/bin /not/there\n", "/home/u/bin:/bin"),
        // What is appended comes after those of the user's, and before all others.
        (
            "fish_add_path -g ~/bin\nfish_add_path --append ~/last\nfish_add_path ~/bin\n",
            "/home/u/bin:/home/u/last:/bin",
        ),
        ("fish_add_path -aP ~/last\n", "/bin:/home/u/last"),
        ("set -U fish_user_paths ~/go/bin $fish_user_paths\n", "?"),
        ("set fish_user_paths /one\nset fish_user_paths /two\n", "/two:/bin"),
        ("export PATH=\"$HOME/bin:$PATH\"\n", "/home/u/bin:/bin"),
        (
            "set -l mine /m\nif test -d ~/bin; and not contains /m $PATH\n    set PATH $mine $PATH\nend\n",
            "/m:/bin",
        ),
        ("if status is-interactive\n    set PATH /i $PATH\nelse\n    set PATH /n $PATH\nend\n", "/i:/bin"),
        ("status --is-login; and set PATH /l $PATH\n", "/l:/bin"),
        ("test -d /nowhere && set PATH /no $PATH || set PATH /or $PATH\n", "/or:/bin"),
        (
            "if type -q no-such-program\n  set PATH /no $PATH\nelse if test -f /etc/no\n  set PATH /no $PATH\nend\n",
            "/bin",
        ),
        ("status is-interactive; or exit\nset PATH /after $PATH\n", "/after:/bin"),
        ("eval (/opt/homebrew/bin/brew shellenv)\n", "/opt/homebrew/bin:/opt/homebrew/sbin:/bin"),
        ("/opt/homebrew/bin/brew shellenv fish | source\n", "/opt/homebrew/bin:/opt/homebrew/sbin:/bin"),
        ("starship init fish | source\nset -q PATH; and echo $PATH >/dev/null 2>&1\n", "/bin"),
        ("function mine\n  set -gx PATH /no $PATH\nend\nalias x 'y'\n", "/bin"),
    ] {
        folder.file(&format!("{config}/config.fish"), text);
        let (path, unknown) = login(&folder, Kind::Fish, true);
        match expected {
            "?" => assert!(!unknown.is_empty(), "{text}: {path}"),
            expected => assert_eq!((path.as_str(), &unknown[..]), (expected, &[][..]), "{text}"),
        }
    }
    // Nobody types there.
    folder.file(&format!("{config}/config.fish"), "if status is-interactive\n    set PATH /i $PATH\nend\n");
    assert_eq!(login(&folder, Kind::Fish, false), ("/bin".into(), Vec::new()));
    // What `fish_add_path` has kept, a file beside it, and one that another hides.
    folder.file(
        &format!("{config}/fish_variables"),
        "# made by fish\nSETUVAR fish_color_cwd:green\nSETUVAR fish_user_paths:/home/u/\\x2ecargo/bin\\x1e/home/u/bin\n",
    );
    folder.file(&format!("{config}/conf.d/rust.fish"), "set PATH $PATH /conf\n");
    folder.file("etc/fish/conf.d/rust.fish", "set PATH /hidden\n");
    folder.file(&format!("{config}/config.fish"), "source $__fish_config_dir/more.fish\n");
    folder.file(&format!("{config}/more.fish"), "fish_add_path /home/u/go/bin\n");
    let expected = "/home/u/go/bin:/home/u/.cargo/bin:/home/u/bin:/bin:/conf";
    assert_eq!(login(&folder, Kind::Fish, true), (expected.into(), Vec::new()));
}

#[test]
fn what_fish_may_make_of_path_is_a_doubt_and_no_claim() {
    let folder = Folder::new("fish-doubt");
    folder.program("bin/tool", "");
    for text in [
        "set -gx PATH (go env GOPATH)/bin $PATH\n",
        "set PATH $GOPATH/bin $PATH\n",
        "for p in /a /b\n  set PATH $p $PATH\nend\n",
        "if string match -q x $TERM\n  fish_add_path /bin\nend\n",
        "switch (uname)\ncase Darwin\n  set PATH /mac $PATH\nend\n",
        "function mine\n  set -gx PATH /f $PATH\nend\nmine\n",
        "tool env | source\n",
        "source (tool env | psub)\n",
        "set PATH[1] /x\n",
        "set -e PATH\n",
        "set PATH {/a,/b}/bin $PATH\n",
        "set PATH \"/open\n",
        "test -n \"$THAT\"; and set PATH /t $PATH\n",
        "eval \"set PATH /e $PATH\"\n",
    ] {
        folder.file("home/u/.config/fish/config.fish", text);
        let (path, unknown) = login(&folder, Kind::Fish, true);
        assert_eq!(unknown.len(), 1, "{text}: {path} {unknown:?}");
        assert!(unknown[0].starts_with("/home/u/.config/fish/config.fish:"), "{unknown:?}");
        assert!(path.split(':').any(|folder| folder == "/bin"), "{text}: {path}");
    }
}

#[test]
fn what_nu_makes_of_path_is_followed() {
    let folder = Folder::new("nu");
    let config = "home/u/.config/nushell";
    for (text, expected) in [
        ("$env.PATH = ($env.PATH | prepend '/a')\n", "/a:/bin"),
        (
            "$env.PATH = ($env.PATH | split row (char esep) | append ($env.HOME | path join \"go\" \"bin\") | uniq)\n",
            "/bin:/home/u/go/bin",
        ),
        ("$env.PATH = [\n    /one, # remark\n    \"/two\"\n    ...$env.PATH\n]\n", "/one:/two:/bin"),
        ("$env.PATH ++= [ /last ]\n", "/bin:/last"),
        (
            "$env.PATH = ([$\"($env.HOME)/x\" ($nu.home-path | path join '.cargo/bin')] ++ $env.PATH)\n",
            "/home/u/x:/home/u/.cargo/bin:/bin",
        ),
        (
            "use std/util \"path add\"\npath add \"~/.local/bin\"\npath add --append /z\n",
            "/home/u/.local/bin:/bin:/z",
        ),
        ("let mine = '/m'\n$env.PATH = (\n    $env.PATH\n    | prepend $mine\n)\n", "/m:/bin"),
        (
            "$env.GOPATH = ($env.HOME | path join go)\n$env.PATH = ($env.PATH | append $\"($env.GOPATH)/bin\")\n",
            "/bin:/home/u/go/bin",
        ),
        ("export-env { $env.PATH = ($env.PATH | prepend /e) }\n", "/e:/bin"),
        (
            "def --env mine [] { $env.PATH = [] }\nprint $env.PATH\nalias ll = ls -l\n$env.config.show_banner = false\n",
            "/bin",
        ),
        ("source more.nu; $env.PATH ++= [/after]\n", "/more:/bin:/after"),
        ("if ($env.PATH == []) { print 'no' }\n", "/bin"),
    ] {
        folder.file(&format!("{config}/env.nu"), text);
        folder.file(&format!("{config}/more.nu"), "$env.PATH = ($env.PATH | prepend /more)\n");
        assert_eq!(login(&folder, Kind::Nu, true), (expected.into(), Vec::new()), "{text}");
    }
    folder.file(&format!("{config}/env.nu"), "$env.PATH ++= [/env]\n");
    folder.file(&format!("{config}/config.nu"), "$env.PATH ++= [/config]\n");
    folder.file(&format!("{config}/autoload/x.nu"), "$env.PATH ++= [/auto]\n");
    folder.file(&format!("{config}/login.nu"), "$env.PATH ++= [/login]\n");
    assert_eq!(login(&folder, Kind::Nu, true), ("/bin:/env:/config:/auto:/login".into(), Vec::new()));
    let (path, unknown) = login(&folder, Kind::Nu, false);
    assert_eq!((path.as_str(), unknown.len()), ("/bin", 1), "{unknown:?}");
}

#[test]
fn what_nu_may_make_of_path_is_a_doubt_and_no_claim() {
    let folder = Folder::new("nu-doubt");
    for text in [
        "$env.PATH = ($env.PATH | where $it != '/x')\n",
        "$env.PATH = ($env.PATH | prepend (go env GOPATH))\n",
        "$env.PATH = ($env.PATH | prepend $env.GOPATH)\n",
        "if (which fnm | is-not-empty) {\n    $env.PATH = ($env.PATH | prepend /f)\n}\n",
        "for dir in [/a /b] { path add $dir }\n",
        "load-env (fnm env --json | from json)\n",
        "$env.PATH.0 = /x\n",
        "def --env mine [] { path add /x }\nmine\n",
        "source ($nu.data-dir | path join x.nu)\n",
        "$env.PATH = ($env.PATH | prepend '~/x')\n",
        "$env.PATH = (((\n",
    ] {
        folder.file("home/u/.config/nushell/config.nu", text);
        let (path, unknown) = login(&folder, Kind::Nu, true);
        assert_eq!(unknown.len(), 1, "{text}: {path} {unknown:?}");
        assert!(unknown[0].starts_with("/home/u/.config/nushell/config.nu:"), "{unknown:?}");
        assert_eq!(path, "/bin", "{text}");
    }
}

#[test]
fn files_that_grow_when_they_are_followed_come_to_an_end() {
    let folder = Folder::new("fish-nu-bounds");
    let nested = |open: &str, close: &str| format!("{}{}", open.repeat(10_000), close.repeat(10_000));
    for (file, kind, text) in [
        ("fish/config.fish", Kind::Fish, nested("begin\n", "end\n")),
        ("fish/config.fish", Kind::Fish, nested("if true\n", "end\n")),
        ("fish/config.fish", Kind::Fish, format!("{} set PATH /x\n", "not ".repeat(20_000))),
        ("fish/config.fish", Kind::Fish, format!("test {} -d /bin\n", "! ".repeat(20_000))),
        (
            "fish/config.fish",
            Kind::Fish,
            format!("set x '' ''\n{}set PATH $x$x$x$x\n", "set x $x $x\n".repeat(1000)),
        ),
        ("fish/config.fish", Kind::Fish, format!("set x aaaa\n{}set PATH $x\n", "set x $x$x\n".repeat(1000))),
        ("fish/config.fish", Kind::Fish, nested("(", ")")),
        ("fish/config.fish", Kind::Fish, "source ~/.config/fish/config.fish\n".repeat(3)),
        ("nushell/config.nu", Kind::Nu, format!("$env.PATH = {}\n", nested("(", ")"))),
        ("nushell/config.nu", Kind::Nu, format!("$env.PATH = {}\n", nested("[", "]"))),
        (
            "nushell/config.nu",
            Kind::Nu,
            format!("let x = ['' '']\n{}$env.PATH = $x\n", "let x = [$x $x]\n".repeat(1000)),
        ),
        ("nushell/config.nu", Kind::Nu, "\n".repeat(20_000) + &"{\n".repeat(10_000)),
        ("nushell/config.nu", Kind::Nu, "source config.nu\n".repeat(3)),
    ] {
        let place = format!("home/u/.config/{file}");
        folder.file(&place, &text);
        let (path, _) = login(&folder, kind, true);
        assert!(path.len() < 200_000, "{}", path.len());
        folder.remove(&place);
    }
}
