//! Orchestra's client side: the handle on an orchestrator, the bridge that stands on it, and the one that answers as the
//! first version did. The orchestrator is a scripted one on our own frames (`support`), which also does what no
//! orchestrator should; the same as a program that behaves as the real one was seen to (`stand_in`); a faulty one
//! (`../support/faulty_orchestrator.rs`); and our own host where the two are to fit together.
//!
//! What is wrong with Orchestra's own `transport.stdio`, and the test that it would fail. Those over processes are in
//! `crates/cli/tests/runner/bridge.rs`, those of certificates in `../orchestra_base/certs.rs`:
//!
//! | the original | test |
//! |---|---|
//! | never connects again | `reconnection::after_a_restart_the_next_call_is_right` |
//! | hangs on a peer that is gone | `reconnection::h157_an_idle_connection_lives_and_one_without_a_network_is_lost_in_time_and_made_again`, `h165_when_the_orchestrator_is_gone_what_waits_is_told_so_and_the_bridge_stays` |
//! | ends when nobody is there at first | `h159_it_stays_while_the_orchestrator_is_away_and_says_where_it_looks_for_it` |
//! | stays at a signal until the next line | `r36_a_signal_ends_it_at_once_also_while_it_waits_for_a_line` |
//! | waits without end for calls in progress at the end of input | `bridge::r36_a_call_that_never_ends_does_not_keep_the_end_of_input_waiting_for_ever` |
//! | dies of a line above 10 MiB | `bridge::r37_a_line_of_eleven_mebibytes_is_a_request_as_any_other`, `bridge::what_is_longer_than_a_frame_is_refused_and_the_session_goes_on` |
//! | knows no cancelling | `bridge::a_call_that_is_cancelled_is_not_answered_and_its_stream_is_reset` |
//! | no progress | `tools::progress_is_told_to_who_asks_for_it_while_a_tool_runs`, `streams::what_comes_is_told_as_progress` |
//! | no time limits | `orchestrator::every_call_has_a_deadline_and_its_stream_is_reset_then` |
//! | no bound on calls | `orchestrator::at_most_a_hundred_exchanges_are_under_way_and_all_are_answered`, `orchestrator::what_waits_for_its_turn_is_bounded` |
//! | a slow list stops everything | `bridge::a_slow_list_stops_neither_ping_nor_another_call`, `bridge::slow_prompts_and_documents_stop_nothing_either` |
//! | ids lose digits | `bridge::ids_come_back_as_they_were_written` |
//! | numbers lose digits | `tools::a_number_that_would_be_rounded_is_refused_with_its_place` |
//! | answers what has no id, and responses; no `"id":null`; no -32600; keys in any case | `bridge::r31_r33_what_is_no_request_is_refused_with_an_id_and_never_executed` |
//! | one revision, whatever is asked for | `bridge::every_revision_is_negotiated` |
//! | takes a batch for no JSON | `bridge::a_batch_is_answered_in_the_one_revision_that_has_them` |
//! | an empty text is left out | `tools::r29_a_result_is_the_text_of_the_original_and_its_structure_beside_it` |
//! | a schema of `null`; tools in no order, and twice | `bridge::r27_tools_are_sorted_without_duplicates_and_each_has_a_schema` |
//! | resources of `null` | `documents::without_any_the_list_is_empty_and_not_null` |
//! | a document that is not there is an empty one | `documents::what_is_not_there_is_an_error_and_so_is_what_leads_out_of_the_folder` |
//! | drops structure | `tools::r29_a_result_is_the_text_of_the_original_and_its_structure_beside_it` |
//! | drops the codes of errors | `tools::r30_a_failed_tool_is_a_result_that_says_so_with_its_code`, `bridge::an_error_of_the_orchestrator_is_told_with_its_code` |
//! | `unexpected response type` | `faults::the_error_envelope_is_an_error_with_its_code_whatever_was_asked` |
//! | drops `traceparent` and provider | `tools::r28_what_goes_out_is_what_the_original_sends` |
//! | never tells that tools have changed | `changes::a_client_is_told_when_the_tools_are_others_than_it_was_told` and the others there |
//! | looks at another port than its orchestrator's | `an_orchestrator_without_an_address_is_the_one_where_orchestrators_listen` |
//! | exits with 2 at `-listen-addr` | `r35_the_bridge_listens_nowhere` |
//! | certificates end after a year | `h163_a_certificate_that_runs_out_is_made_anew_with_its_key_and_names`, `the_authoritys_certificate_is_made_anew_with_its_name_and_key` |
//! | two that start at once make two authorities | `what_begins_at_once_makes_one_authority` |
//! | replaces an authority of which a half is missing | `half_an_authority_is_an_error_and_stays_as_it_is` |

#![cfg(all(unix, feature = "quic"))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "the seed of a run is told, so that it can be made again")]

mod bridge;
mod changes;
mod compat;
mod documents;
mod faults;
#[path = "../support/faulty_orchestrator.rs"]
mod faulty_orchestrator;
#[path = "../support/lossy.rs"]
mod lossy;
mod network;
mod orchestrator;
#[path = "../support/ports.rs"]
mod ports;
mod reconnection;
mod stand_in;
mod streams;
mod support;
mod tools;
