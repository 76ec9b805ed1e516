//! `mcpjoin doctor orchestra://host:port`: from what was typed to an examination of an orchestrator.

use mcpjoin_diagnostics::doctor::OrchestraDoctor;
use mcpjoin_orchestra::certs::Certificates;

use super::{Watch, shown};
use crate::args::Doctor;
use crate::connect::certificates_folder;
use crate::exit::Exit;
use crate::failure::{Failure, Phase};
use crate::target;
use crate::ui::Ui;

/// The address, where an orchestrator is what was named.
pub(super) fn address(args: &Doctor, escaped: bool) -> Option<String> {
    let [word] = &*args.words else { return None };
    let (scheme, address) = word.to_str()?.split_once("://")?;
    (!escaped && scheme.eq_ignore_ascii_case("orchestra")).then(|| address.to_owned())
}

/// What is for an orchestrator alone is refused for anything else.
pub(super) fn refuse(args: &Doctor) -> Result<(), Failure> {
    let given = [
        ("--certs-dir", args.connect.certs_dir.is_some()),
        ("--server-name", args.connect.server_name.is_some()),
    ];
    match given.into_iter().find(|(_, given)| *given) {
        Some((option, _)) => {
            let problem = format!("{option} is for an orchestrator (orchestra://host:port)");
            Err(Failure::usage(problem, format!("leave out {option}")))
        }
        None => Ok(()),
    }
}

/// Examines the orchestrator.
pub(super) fn run(ui: &Ui, args: &Doctor, address: &str) -> Result<Exit, Failure> {
    if address.is_empty() || address.contains(['/', '?', '#', '@']) {
        let word = args.words.first().map(|word| target::shown(word)).unwrap_or_default();
        return Err(Failure::usage(format!("{word} is no address"), "write orchestra://host:port"));
    }
    let connect = &args.connect;
    let of_others = [
        ("-e", !connect.env.is_empty()),
        ("--env-clean", connect.env_clean),
        ("--inherit-env", connect.inherit_env),
        ("--cwd", connect.cwd.is_some()),
        ("--header", !connect.header.is_empty()),
        ("--server", connect.server.is_some()),
        ("--trace", connect.trace.is_some()),
        ("--era", connect.era.asked().is_some()),
        ("--protocol-version", connect.protocol_version.is_some()),
        ("--max-message-size", connect.max_message_size.is_some()),
        ("--config", connect.configured.config.is_some()),
        ("--mcp-config", !connect.configured.mcp_config.is_empty()),
    ];
    if let Some((option, _)) = of_others.into_iter().find(|(_, given)| *given) {
        let problem = format!("{option} is for an MCP server, and an orchestrator is none");
        return Err(Failure::usage(problem, format!("leave out {option}")));
    }
    let directory = certificates_folder(args.connect.certs_dir.as_deref())?;
    let mut certificates = Certificates::in_directory(directory);
    if let Some(file) = &connect.ca {
        certificates = certificates.ca(file);
    }
    if let Some(name) = &args.connect.server_name {
        certificates = certificates.server_name(name);
    }
    let mut doctor = OrchestraDoctor::new(address, certificates);
    if let Some(time) = connect.connect_timeout {
        doctor = doctor.connect_timeout(time);
    }
    if let Some(time) = connect.timeout {
        doctor = doctor.answer_timeout(time);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::system(Phase::Connect, &error))?;
    let watch = Watch::new(ui);
    let doctor = doctor.on_phase(watch.phase()).on_step(watch.step());
    let name = format!("orchestra://{address}");
    let examined = async { (doctor.examine().await, Vec::new()) };
    Ok(runtime.block_on(shown(&watch, &name, examined, std::future::ready(()))))
}
