//! What others ask a shard about its sessions.

use actix::{Context, Handler, MessageResult};
use understudy_messages::session::{ForgetSession, InspectSession, ListSessions, PinModel};

use super::SessionShardActor;

impl Handler<InspectSession> for SessionShardActor {
    type Result = MessageResult<InspectSession>;

    fn handle(&mut self, ask: InspectSession, _: &mut Context<Self>) -> Self::Result {
        MessageResult(self.view(&ask.session))
    }
}

impl Handler<ListSessions> for SessionShardActor {
    type Result = MessageResult<ListSessions>;

    fn handle(&mut self, ask: ListSessions, _: &mut Context<Self>) -> Self::Result {
        MessageResult(self.page(ask.owner, ask.after, ask.limit))
    }
}

impl Handler<PinModel> for SessionShardActor {
    type Result = MessageResult<PinModel>;

    fn handle(&mut self, ask: PinModel, _: &mut Context<Self>) -> Self::Result {
        MessageResult(self.pin(&ask.session, ask.model))
    }
}

impl Handler<ForgetSession> for SessionShardActor {
    type Result = MessageResult<ForgetSession>;

    fn handle(&mut self, ask: ForgetSession, _: &mut Context<Self>) -> Self::Result {
        MessageResult(self.forget(&ask.session))
    }
}
