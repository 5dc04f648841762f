//! Damage, done on purpose.

use super::*;

fn flipped(record: &[u8]) -> Vec<u8> {
    let mut record = record.to_vec();
    if let Some(last) = record.last_mut() {
        *last ^= 1;
    }
    record
}

pub(in crate::session::store) fn flip_a_bit_of_turn(
    write: &WriteTransaction,
    key: &[u8],
    number: u64,
) -> Result<(), redb::Error> {
    let mut turns = write.open_table(TURNS)?;
    let record = turns.get((key, number))?.map(|record| flipped(record.value()));
    turns.insert((key, number), &*record.expect("there"))?;
    Ok(())
}

pub(in crate::session::store) fn flip_a_bit_of_header(write: &WriteTransaction, key: &[u8]) -> Result<(), redb::Error> {
    let mut sessions = write.open_table(SESSIONS)?;
    let record = sessions.get(key)?.map(|record| flipped(record.value()));
    sessions.insert(key, &*record.expect("there"))?;
    Ok(())
}

pub(in crate::session::store) fn drop_turn(
    write: &WriteTransaction,
    key: &[u8],
    number: u64,
) -> Result<(), redb::Error> {
    write.open_table(TURNS)?.remove((key, number))?;
    Ok(())
}

pub(in crate::session::store) fn add_row(write: &WriteTransaction, minute: u64, key: &[u8]) -> Result<(), redb::Error> {
    write.open_table(USED)?.insert((minute, key), ())?;
    Ok(())
}

pub(in crate::session::store) fn rows(write: &WriteTransaction) -> Result<u64, redb::Error> {
    Ok(write.open_table(USED)?.len()?)
}
