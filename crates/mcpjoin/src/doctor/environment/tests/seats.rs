//! `PATH` as each seat has it.

use std::path::PathBuf;

use super::super::{SearchPaths, Seat, System};
use super::{Folder, GUARD};

fn folders(paths: &SearchPaths, seat: Seat) -> String {
    let folders: Vec<String> =
        paths.at(seat).folders.iter().map(|folder| folder.display().to_string()).collect();
    folders.join(":")
}

#[test]
fn each_seat_reads_its_own_files() {
    let folder = Folder::healthy("seats");
    folder.file("etc/passwd", "u:x:1000:1000::/home/u:/bin/bash\n");
    folder.file("etc/login.defs", "# ENV_PATH PATH=/no\nENV_SUPATH PATH=/sbin\nENV_PATH\tPATH=/login:/bin\n");
    folder.file("home/u/.local/bin/x", "");
    folder.file("home/u/.bashrc", format!("{GUARD}export PATH=/terminal:$PATH\n"));
    folder.file("home/u/.config/environment.d/10-path.conf", "# x\nPATH=${HOME}/env:$PATH\n");
    folder.file("etc/environment.d/10-path.conf", "PATH=/hidden\n");
    folder.file(
        "etc/systemd/system.conf",
        "[Manager]\n#DefaultEnvironment=PATH=/no\nDefaultEnvironment=\"PATH=/unit\" A=1\n",
    );
    let world = folder.world().with_user(1000).with_variable("PATH", "/here:.:");
    let paths = SearchPaths::of(&world);
    let system = "/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games";
    for (seat, expected) in [
        (Seat::Here, "/here:.".to_owned()),
        (Seat::LoginShell, format!("/home/u/.local/bin:/terminal:{system}")),
        (Seat::Desktop, format!("/home/u/.local/bin:{system}")),
        (
            Seat::UserService,
            "/home/u/env:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned(),
        ),
        (Seat::SystemService, "/unit".to_owned()),
        (Seat::Cron, "/usr/bin:/bin".to_owned()),
    ] {
        assert_eq!(folders(&paths, seat), expected, "{seat}");
        assert!(paths.is_certain(seat), "{seat}: {:?}", paths.at(seat).unknown);
    }
    assert_eq!(
        paths.at(Seat::LoginShell).set,
        ["/etc/login.defs:3", "/etc/profile:4", "/home/u/.bashrc:5", "/home/u/.profile:7"]
    );
    assert_eq!(paths.find(Seat::Desktop, "node"), Some(PathBuf::from("/usr/bin/node")));
    assert_eq!(paths.find(Seat::SystemService, "node"), None);
    assert_eq!(paths.find(Seat::SystemService, "/usr/bin/node"), Some(PathBuf::from("/usr/bin/node")));

    // Without a file that sets it anew, /etc/environment counts, and environment.d before it on a desktop.
    folder.remove("etc/profile");
    folder.file("etc/environment", "LANG=C\nPATH=\"/environment:/usr/bin\"\n");
    folder.file("etc/passwd", "u:x:1000:1000::/home/u:/bin/zsh\n");
    folder.file("home/u/.zshenv", ". \"$HOME/.cargo/env\"\n");
    folder.file("home/u/.cargo/env", "case \":${PATH}:\" in\n*:\"$HOME/.cargo/bin\":*) ;;\n*) export PATH=\"$HOME/.cargo/bin:$PATH\" ;;\nesac\n");
    folder.file("home/u/.zshrc", "path=(/zsh $path)\n");
    let paths = SearchPaths::of(&world);
    assert_eq!(folders(&paths, Seat::LoginShell), "/zsh:/home/u/.cargo/bin:/environment:/usr/bin");
    assert_eq!(folders(&paths, Seat::Desktop), "/home/u/.cargo/bin:/home/u/env:/environment:/usr/bin");
}

#[test]
fn zsh_reads_its_files_where_the_one_before_says() {
    let folder = Folder::new("seats-zdotdir");
    folder.file("home/u/.zshenv", "export ZDOTDIR=$HOME/.config/zsh\n");
    folder.file("home/u/.zprofile", "PATH=/no\n");
    folder.file("home/u/.config/zsh/.zprofile", "PATH=/profile:/bin\n");
    folder.file("home/u/.config/zsh/.zshrc", "path=(/rc $path)\nZDOTDIR=$(which zsh)\n");
    let paths = SearchPaths::of(&folder.world().with_user(1000).with_variable("SHELL", "/bin/zsh"));
    assert_eq!(folders(&paths, Seat::LoginShell), "/rc:/profile:/bin");
    assert_eq!(folders(&paths, Seat::Desktop), "/profile:/bin");
    assert!(paths.is_certain(Seat::Desktop));
    assert!(!paths.is_certain(Seat::LoginShell));
}

#[test]
fn a_shell_that_is_not_understood_is_said_to_be() {
    let folder = Folder::healthy("seats-xonsh");
    folder.file("etc/passwd", "");
    let world = folder.world().with_variable("SHELL", "/usr/bin/xonsh");
    let paths = SearchPaths::of(&world);
    assert!(!paths.is_certain(Seat::LoginShell));
    assert!(paths.at(Seat::LoginShell).unknown[0].contains("xonsh"));
    assert!(paths.is_certain(Seat::UserService));
}

#[test]
fn fish_and_nu_read_files_of_their_own() {
    let folder = Folder::healthy("seats-fish-nu");
    folder.file("etc/passwd", "");
    folder.file("etc/environment", "PATH=/system\n");
    folder.file("home/u/.config/fish/config.fish", "set -gx PATH /fish $PATH\n");
    folder.file("home/u/.config/nushell/env.nu", "$env.PATH = ($env.PATH | prepend /nu)\n");
    for (shell, desktop) in [("fish", "/fish:/system"), ("nu", "/system")] {
        let paths = SearchPaths::of(&folder.world().with_variable("SHELL", format!("/usr/bin/{shell}")));
        assert_eq!(folders(&paths, Seat::LoginShell), format!("/{shell}:/system"));
        assert!(paths.is_certain(Seat::LoginShell), "{:?}", paths.at(Seat::LoginShell).unknown);
        assert_eq!(folders(&paths, Seat::Desktop), desktop);
        // Whether nu reads them there is not known.
        assert_eq!(paths.is_certain(Seat::Desktop), shell == "fish");
    }
}

#[test]
fn what_is_started_from_the_menu_of_macos_has_the_path_of_launchd() {
    let folder = Folder::new("seats-mac");
    folder.file("etc/paths", "/usr/local/bin\n/usr/bin\n/bin\n");
    folder.file("etc/paths.d/homebrew", "/opt/homebrew/bin\n");
    folder.file(
        "etc/zprofile",
        "if [ -x /usr/libexec/path_helper ]; then\n\teval `/usr/libexec/path_helper -s`\nfi\n",
    );
    folder.program("usr/libexec/path_helper", "");
    let world = folder.world().with_variable("SHELL", "/bin/zsh").with_user(501).on_system(System::Mac);
    let paths = SearchPaths::of(&world);
    assert_eq!(folders(&paths, Seat::Desktop), "/usr/bin:/bin:/usr/sbin:/sbin");
    assert_eq!(
        folders(&paths, Seat::LoginShell),
        "/usr/local/bin:/usr/bin:/bin:/opt/homebrew/bin:/usr/sbin:/sbin"
    );
}
