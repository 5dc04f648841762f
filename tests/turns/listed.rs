//! A plugin that lists the models of the provider it brings, over the real app: shown, and withdrawn as it goes.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use serde_json::{Value, json};
use tokio::sync::watch;
use understudy_messages::catalog::{CatalogModel, CatalogSource, Listed, Listing, Progress, Stage as Look};
use understudy_messages::ids::{ModelRef, Name};
use understudy_messages::service::{CallService, ServiceTurn};
use understudy_messages::settings::{Api, ProviderSettings};
use understudy_plugins::native::{NativeApi, NativePlugin};
use understudy_plugins::registration::ProviderRegistration;
use understudy_providers::sim::Simulator;

use crate::brought::{Place, both, strict, url};
use crate::catalogs::{catalog, names, until};
use crate::reload::Folder;

/// How long the provider of the configuration takes.
const SLOW: Duration = Duration::from_secs(20);

/// Brings `acme` with a list of its own. Its service stops when it may.
#[derive(Clone)]
struct Lister {
    stopping: Arc<watch::Sender<bool>>,
    may_stop: Arc<watch::Sender<bool>>,
}

impl Lister {
    fn new() -> Self {
        Self {
            stopping: Arc::new(watch::Sender::new(false)),
            may_stop: Arc::new(watch::Sender::new(false)),
        }
    }
}

async fn so(told: &watch::Sender<bool>) {
    let mut told = told.subscribe();
    told.wait_for(|it| *it).await.expect("the test lives");
}

struct List;

impl CatalogSource for List {
    fn plugin(&self) -> Option<Name> {
        Some("shop".into())
    }

    fn list(&self, progress: Progress, _: tokio_util::sync::CancellationToken) -> Listed {
        progress.note(Look::Discovery);
        let mut listing = Listing::default();
        for model in ["m", "fresh"] {
            listing.add(CatalogModel::new(&"acme".into(), model, None).expect("a name"));
        }
        Box::pin(std::future::ready(Ok(listing)))
    }
}

impl NativePlugin for Lister {
    fn id(&self) -> &str {
        "shop"
    }

    fn register(&self, api: &mut NativeApi, settings: &Value) -> Result<(), String> {
        let url = settings["baseUrl"].as_str().unwrap_or_default().to_owned();
        let settings = ProviderSettings::new("acme".into(), Api::OpenaiChat, url);
        let mut provider = ProviderRegistration::new(settings);
        provider.catalog = Some(Arc::new(List));
        api.provider(provider);
        let own = self.clone();
        let service = move |call: CallService| {
            let own = own.clone();
            async move {
                if call.turn == ServiceTurn::Stop {
                    own.stopping.send_replace(true);
                    so(&own.may_stop).await;
                }
                Ok(())
            }
            .boxed()
        };
        api.service("shelf", Arc::new(service));
        Ok(())
    }
}

async fn place(lister: &Lister) -> (Place, Folder) {
    let folder = Folder::new(
        "shop",
        "{ id: 'shop', host: 'native', resources: 'exclusive', providers: ['acme'] }",
    );
    let plugins = |simulator: &Simulator| {
        let entry = format!(
            "shop: {{ enabled: true, config: {{ baseUrl: \"{}\" }} }}",
            url(simulator, "acme")
        );
        format!("plugins: {{ {} entries: {{ {entry} }} }}\n", folder.paths())
    };
    let mut plan = both();
    plan["acme/fresh"] = plan["acme/m"].clone();
    plan["own/m"]["calls"][0]["delay_ms"] = json!(SLOW.as_millis() as u64);
    let place = Place::new(plan, plugins, vec![Arc::new(lister.clone())]).await;
    until(&place.stage, "acme", |catalog| catalog["version"] == 1).await;
    (place, folder)
}

async fn lists_fresh(place: &Place) -> bool {
    names(&place.stage).await.contains(&"acme/fresh".to_owned())
}

#[tokio::test]
async fn what_a_plugin_lists_is_shown_and_whoever_reads_it_as_it_goes_waits_for_the_next_case_t14() {
    let lister = Lister::new();
    let (place, _folder) = place(&lister).await;
    assert!(lists_fresh(&place).await);
    assert_eq!(place.served_by(&strict("acme/fresh")).await, "acme/fresh");

    let during = async {
        so(&lister.stopping).await;
        let reads = lists_fresh(&place);
        tokio::pin!(reads);
        // one that leaves takes nothing along
        let leaves = place.stage.get("/v1/models");
        let meanwhile = async {
            for _some in 0..20 {
                assert_eq!(place.stage.admin("/livez").await.status, 200);
            }
        };
        tokio::select! {
            biased;
            _ = &mut reads => panic!("it was withdrawn"),
            _ = leaves => panic!("it was withdrawn"),
            () = meanwhile => {}
        }
        lister.may_stop.send_replace(true);
        reads.await
    };
    let (reloaded, _read) = tokio::join!(place.reload("shop"), during);
    assert_eq!(reloaded.status, 200, "{}", reloaded.text());
    until(&place.stage, "acme", |catalog| catalog["models"] == 2).await;
    assert!(lists_fresh(&place).await, "the next one lists it as well");
}

#[tokio::test]
async fn what_a_plugin_lists_stays_while_a_reload_waits_and_when_it_is_taken_back_case_t14() {
    let lister = Lister::new();
    let (place, _folder) = place(&lister).await;
    let slow = ModelRef::new("own", "m");
    let asked = strict("own/m");
    let turn = place.stage.ask(&asked);
    let during = async {
        place.stage.called(&slow, 1).await;
        let reads = async {
            while place.stage.admin("/readyz").await.json()["pluginReload"]["phase"] != "reloading" {}
            assert!(lists_fresh(&place).await, "at once");
        };
        tokio::select! {
            reloaded = place.reload("shop") => panic!("{}", reloaded.text()),
            () = reads => {}
        }
        // whoever asked for it is gone, and with that it is over
        while place.stage.admin("/readyz").await.status != 200 {}
        assert!(lists_fresh(&place).await);
        let page = catalog(&place.stage, "acme").await;
        assert_eq!((&page["version"], &page["models"]), (&json!(1), &json!(2)), "{page}");
        place.stage.clock.advance(SLOW);
    };
    let (reply, ()) = tokio::join!(turn, during);
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert!(!*lister.stopping.borrow());
    lister.may_stop.send_replace(true);
}
