//! What others ask a shard about its sessions.

use actix::{AsyncContext, Context, Handler, MessageResult, ResponseFuture};
use understudy_messages::session::{
    ForgetError, ForgetSession, InspectSession, ListSessions, PinModel, SessionFault, SessionInfo, SessionView,
};

use super::SessionShardActor;

impl Handler<InspectSession> for SessionShardActor {
    type Result = ResponseFuture<Result<Option<SessionView>, SessionFault>>;

    fn handle(&mut self, ask: InspectSession, _: &mut Context<Self>) -> Self::Result {
        Box::pin(self.view(ask.session))
    }
}

impl Handler<ListSessions> for SessionShardActor {
    type Result = MessageResult<ListSessions>;

    fn handle(&mut self, ask: ListSessions, _: &mut Context<Self>) -> Self::Result {
        MessageResult(self.page(ask.owner, ask.after, ask.limit))
    }
}

impl Handler<PinModel> for SessionShardActor {
    type Result = ResponseFuture<Result<Option<SessionInfo>, SessionFault>>;

    fn handle(&mut self, ask: PinModel, ctx: &mut Context<Self>) -> Self::Result {
        Box::pin(self.pin(ask.session, ask.model, ctx.address()))
    }
}

impl Handler<ForgetSession> for SessionShardActor {
    type Result = ResponseFuture<Result<(), ForgetError>>;

    fn handle(&mut self, ask: ForgetSession, ctx: &mut Context<Self>) -> Self::Result {
        Box::pin(self.forget(ask.session, ctx.address()))
    }
}
