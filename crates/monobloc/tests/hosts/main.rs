//! The promises about services, kept on hosts with a real systemd of two releases.
//!
//! Each test has a host of its own: made for it, gone after it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod audit;
mod power;
mod preflight;
#[path = "../../../host/tests/it/publisher.rs"]
mod publisher;
mod removal;
mod script;
mod secrets;
mod services;
mod site;
mod snapshot;
mod step;
mod trial;

/// Every promise on every release.
macro_rules! on_releases {
    ($($name:ident = $test:path;)*) => {
        mod real_hosts {
            mod bookworm {
                $(#[test]
                fn $name() {
                    $test(local::Suite::Bookworm, concat!("b-", stringify!($name)));
                })*
            }
            mod trixie {
                $(#[test]
                fn $name() {
                    $test(local::Suite::Trixie, concat!("t-", stringify!($name)));
                })*
            }
        }
    };
}

on_releases! {
    units_start_and_unchanged_ones_keep_their_process = crate::services::unchanged_units_keep_their_process;
    boot_starts_setup_and_setup_the_rest = crate::services::boot_starts_setup_and_setup_the_rest;
    without_systemd_all_but_services_works = crate::services::without_systemd_all_but_services_works;
    the_program_that_boot_uses_comes_with_the_set = crate::services::the_program_that_boot_uses_comes_with_the_set;
    the_options_of_the_reference_leave_things_alone = crate::services::the_options_of_the_reference_leave_things_alone;
    the_api_is_served_through_a_socket_of_systemd = crate::services::the_api_is_served_through_a_socket_of_systemd;
    whatever_units_are_brought_the_host_comes_back = crate::trial::whatever_units_are_brought_the_host_comes_back;
    what_another_unit_takes_down_comes_back = crate::trial::what_another_unit_takes_down_comes_back;
    what_keeps_uninstall_from_ending_is_told_and_boot_ends_it = crate::removal::what_keeps_uninstall_from_ending_is_told_and_boot_ends_it;
    a_failing_check_goes_back_by_itself = crate::trial::a_failing_check_goes_back_by_itself;
    a_unit_that_dies_goes_back_by_itself = crate::trial::a_unit_that_dies_goes_back_by_itself;
    a_reboot_during_the_trial_goes_back = crate::trial::a_reboot_during_the_trial_goes_back;
    a_killed_trial_goes_back_at_the_deadline = crate::trial::a_killed_trial_goes_back_at_the_deadline;
    power_cuts_during_an_upgrade = crate::power::cuts_during_an_upgrade;
    power_cuts_during_a_rollback = crate::power::cuts_during_a_rollback;
    what_was_changed_is_named_and_put_right = crate::audit::what_was_changed_is_named_and_put_right;
    a_service_reads_its_secret_and_nobody_else_does = crate::secrets::a_service_reads_its_secret_and_nobody_else_does;
    a_busy_port_stops_an_install_and_leaves_nothing_behind = crate::preflight::a_busy_port_stops_an_install_and_leaves_nothing_behind;
    scripts_install_upgrade_and_go_back_by_themselves = crate::script::scripts_install_upgrade_and_go_back_by_themselves;
    after_purge_the_host_is_what_it_was = crate::removal::after_purge_the_host_is_what_it_was;
    a_step_outlives_the_session_that_it_was_ordered_in = crate::step::a_step_outlives_the_session_that_it_was_ordered_in;
    uninstall_keeps_state_and_its_users = crate::removal::uninstall_keeps_state_and_its_users;
}
