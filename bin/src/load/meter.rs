//! How it is known what a gateway uses.

use std::time::Duration;

use super::process::Usage;
use crate::scrape::Scrape;

/// How long a scrape may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where a gateway's usage is read.
#[derive(Clone, Debug)]
pub(crate) enum Meter {
    /// A process of this machine.
    Process(u32),
    /// A scrape with `process_cpu_seconds_total` and `process_resident_memory_bytes`.
    Scrape(String),
    /// Nowhere.
    None,
}

impl Meter {
    /// What it has used by now, where that is known.
    pub(crate) async fn read(&self) -> Option<Usage> {
        match self {
            Self::Process(_) | Self::None => self.glance(),
            Self::Scrape(url) => scrape(url).await.ok().flatten(),
        }
    }

    /// The same without waiting for anybody.
    pub(crate) fn glance(&self) -> Option<Usage> {
        match self {
            Self::Process(pid) => Usage::of(*pid),
            Self::Scrape(_) | Self::None => None,
        }
    }
}

async fn scrape(url: &str) -> reqwest::Result<Option<Usage>> {
    let client = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build()?;
    let text = client.get(url).send().await?.error_for_status()?.text().await?;
    Ok(usage_in(&Scrape::parse(&text)))
}

fn usage_in(scrape: &Scrape) -> Option<Usage> {
    let (cpu, rss) = ("process_cpu_seconds_total", "process_resident_memory_bytes");
    if !scrape.has(cpu, &[]) || !scrape.has(rss, &[]) {
        return None;
    }
    Some(Usage {
        cpu: Duration::try_from_secs_f64(scrape.sum(cpu, &[])).ok()?,
        rss: scrape.count(rss, &[]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scrape_tells_what_its_process_uses_or_nothing() {
        let text = "process_cpu_seconds_total 1.5\nprocess_resident_memory_bytes 2048\n";
        let usage = usage_in(&Scrape::parse(text)).expect("is told");
        assert_eq!((usage.cpu, usage.rss), (Duration::from_millis(1500), 2048));
        assert_eq!(usage_in(&Scrape::parse("process_cpu_seconds_total 1.5\n")), None);
    }
}
