//! How it is known what a gateway uses and holds.

use std::time::Duration;

use super::census::Census;
use super::process::Usage;
use crate::scrape::Scrape;

/// How long a scrape may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where a gateway is looked at: nowhere by default.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meter {
    /// A process of this machine.
    pub(crate) process: Option<u32>,
    /// A scrape; `process_cpu_seconds_total` and `process_resident_memory_bytes` in it stand for a process.
    pub(crate) scrape: Option<String>,
}

impl Meter {
    #[cfg(test)]
    pub(super) fn of_process(pid: u32) -> Self {
        Self {
            process: Some(pid),
            scrape: None,
        }
    }

    /// What it has used by now, where that is known.
    pub(crate) async fn read(&self) -> Option<Usage> {
        match (self.process, &self.scrape) {
            (None, Some(url)) => usage_in(&scrape(url).await.ok()?),
            _ => self.glance(),
        }
    }

    /// The same without waiting for anybody.
    pub(crate) fn glance(&self) -> Option<Usage> {
        self.process.and_then(Usage::of)
    }

    /// What it holds, as far as that is known.
    pub(crate) async fn census(&self) -> Census {
        let mut census = self.process.map(Census::of_process).unwrap_or_default();
        if let Some(url) = &self.scrape
            && let Ok(scrape) = scrape(url).await
        {
            census.add(&scrape);
        }
        census
    }
}

async fn scrape(url: &str) -> reqwest::Result<Scrape> {
    let client = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build()?;
    let text = client.get(url).send().await?.error_for_status()?.text().await?;
    Ok(Scrape::parse(&text))
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
