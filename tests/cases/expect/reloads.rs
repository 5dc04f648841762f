//! The reloads among a case's steps: each is carried out, but for those that the case's script makes fail.

use super::Complaints;
use crate::seen::Seen;

pub(super) fn check(seen: &Seen, complaints: &mut Complaints) {
    for reload in &seen.reloads {
        let expected = if reload.fails { 409 } else { 200 };
        let told = (reload.status, &reload.told);
        complaints.unless(reload.status == expected, &reload.step, &expected, &told);
    }
}
