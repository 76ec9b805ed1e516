//! Tests of the value of `PATH` in each context.

use std::path::PathBuf;

use super::super::{EnvironmentDoctor, LaunchContext, SearchPath, SearchPaths, World};
use super::Folder;

async fn paths(world: &World) -> SearchPaths {
    EnvironmentDoctor::new(world.clone()).examine().await.paths.unwrap()
}

fn folders(path: &SearchPath) -> String {
    let folders: Vec<String> = path.folders.iter().map(|folder| folder.display().to_string()).collect();
    folders.join(":")
}

#[tokio::test]
async fn each_context_has_its_own_path() {
    let folder = Folder::healthy("contexts");
    folder.file("etc/login.defs", "# ENV_PATH PATH=/no\nENV_SUPATH PATH=/sbin\nENV_PATH\tPATH=/login:/bin\n");
    folder.file("home/u/.config/environment.d/10-path.conf", "# x\nPATH=${HOME}/env:$PATH\n");
    folder.file("etc/environment.d/10-path.conf", "PATH=/hidden\n");
    folder.file("etc/environment.d/20-more.conf", "PATH=/more${PATH:+:$PATH}\n");
    folder.shell("/terminal:$PATH", "/profile:$PATH");
    let world = World { user: 1000, ..folder.world() }.with_variable("PATH", "/here:.:");
    let found = paths(&world).await;
    let system = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    let desktop = "/profile:/more:/home/u/env:/login:/bin".to_owned();
    for (context, expected) in [
        (LaunchContext::Here, "/here:.".to_owned()),
        (LaunchContext::LoginShell, "/terminal:/profile:/login:/bin".to_owned()),
        (LaunchContext::Desktop, desktop.clone()),
        (LaunchContext::UserService, format!("/more:/home/u/env:{system}")),
        (LaunchContext::SystemService, system.to_owned()),
        (LaunchContext::Cron, "/usr/bin:/bin".to_owned()),
    ] {
        assert_eq!(folders(found.at(context)), expected, "{context}");
        assert!(found.is_known(context), "{context}: {:?}", found.at(context).unknown);
    }
    assert_eq!(
        found.at(LaunchContext::Desktop).sources,
        [
            "/etc/login.defs:3",
            "/home/u/.config/environment.d/10-path.conf:2",
            "/etc/environment.d/20-more.conf:1",
            "/bin/bash -lc 'command printf \"%s=%s=%s\" MARKER \"$PATH\" MARKER'",
        ]
    );
    assert_eq!(found.at(LaunchContext::LoginShell).shell.as_deref(), Some("/bin/bash -ilc"));
    assert_eq!(found.find(LaunchContext::Cron, "node"), Some(PathBuf::from("/usr/bin/node")));
    assert_eq!(found.find(LaunchContext::Here, "node"), None);
    assert_eq!(found.find(LaunchContext::Here, "/usr/bin/node"), Some(PathBuf::from("/usr/bin/node")));

    // /etc/environment is read later, and its value counts.
    folder.file("etc/environment", "LANG=C\nPATH=\"/environment:/usr/bin\"\n");
    let found = paths(&world).await;
    assert_eq!(folders(found.at(LaunchContext::LoginShell)), "/terminal:/profile:/environment:/usr/bin");
}

#[tokio::test]
async fn the_menu_of_macos_has_the_path_of_launchd() {
    let folder = Folder::healthy("mac");
    folder.shell("/opt/homebrew/bin:$PATH", "/no");
    let found = paths(&World { is_mac: true, ..folder.world() }).await;
    assert_eq!(folders(found.at(LaunchContext::Desktop)), "/usr/bin:/bin:/usr/sbin:/sbin");
    assert_eq!(found.at(LaunchContext::Desktop).shell, None);
    let terminal = folders(found.at(LaunchContext::LoginShell));
    assert_eq!(terminal, "/opt/homebrew/bin:/no");
}

#[tokio::test]
async fn the_shell_is_run_once_and_with_consent() {
    let folder = Folder::healthy("consent");
    let runs = folder.path().join("runs");
    folder.program(
        "bin/bash",
        &format!("echo \"$1\" >> '{}'\nPATH=/usr/bin:/bin\neval \"$2\"", runs.display()),
    );
    let silent = EnvironmentDoctor::new(folder.world()).without_shell();
    let report = silent.examine().await;
    assert!(!runs.exists());
    assert!(silent.about_program("no-such-program").await.is_empty());
    assert!(!runs.exists());
    let note =
        "the PATH of your login shell and of a desktop session is unknown: no shell was run (--no-shell)";
    assert_eq!(report.notes, [note]);
    assert!(report.is_healthy(), "{:?}", report.findings);
    assert_eq!(silent.shell_notes(), [note]);

    let asks = EnvironmentDoctor::new(folder.world());
    assert!(asks.about_program("node").await.is_empty());
    assert!(!runs.exists() && asks.shell_notes().is_empty(), "what is found needs no shell");
    asks.about_program("no-such-program").await;
    asks.clone().about_program("nor-this").await;
    asks.examine().await;
    let mut lines: Vec<String> = std::fs::read_to_string(&runs).unwrap().lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["-ilc", "-lc"]);
    assert_eq!(asks.shell_notes(), ["ran /bin/bash -ilc and /bin/bash -lc to find the program"]);
}
