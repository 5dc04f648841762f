//! What criterion has measured, as ratios.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::Value;

/// One thing that was measured.
struct Row {
    measured: SystemTime,
    group: String,
    name: String,
    /// The median, in nanoseconds; of one element where several are done at once.
    time: f64,
}

/// Prints what is kept below `folder` and was measured since `began`; nothing where nothing was.
pub fn print(folder: &Path, began: SystemTime) {
    let mut rows: Vec<Row> = folders(folder)
        .iter()
        .flat_map(|group| folders(group))
        .filter_map(|one| read(&one.join("new")))
        .filter(|row| row.measured >= began)
        .collect();
    if rows.is_empty() {
        return;
    }
    rows.sort_by_key(|row| row.measured);
    for group in rows.chunk_by(|one, next| one.group == next.group) {
        println!("\n{:52}{:>14}{:>9}", group[0].group, "ns", "ratio");
        for row in group {
            let ratio = row.time / group[0].time;
            println!("  {:50}{:14.1}{ratio:9.2}", row.name, row.time);
        }
    }
}

fn folders(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

fn read(folder: &Path) -> Option<Row> {
    let json = |name| -> Option<Value> { serde_json::from_slice(&fs::read(folder.join(name)).ok()?).ok() };
    let (about, estimates) = (json("benchmark.json")?, json("estimates.json")?);
    let elements = about["throughput"]["Elements"].as_f64().unwrap_or(1.0);
    Some(Row {
        measured: fs::metadata(folder.join("estimates.json")).ok()?.modified().ok()?,
        group: about["group_id"].as_str()?.to_owned(),
        name: about["function_id"].as_str()?.to_owned(),
        time: estimates["median"]["point_estimate"].as_f64()? / elements,
    })
}
