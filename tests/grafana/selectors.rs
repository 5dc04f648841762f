//! What an expression is made of.

use promql_parser::parser::{Expr, MatrixSelector, VectorSelector};

/// The expressions directly inside of this one.
pub(crate) fn children(expr: &Expr) -> impl Iterator<Item = &Expr> {
    let inside: Vec<&Expr> = match expr {
        Expr::Aggregate(it) => it.param.iter().map(|param| &**param).chain([&*it.expr]).collect(),
        Expr::Unary(it) => vec![&it.expr],
        Expr::Binary(it) => vec![&it.lhs, &it.rhs],
        Expr::Paren(it) => vec![&it.expr],
        Expr::Subquery(it) => vec![&it.expr],
        Expr::Call(it) => it.args.args.iter().map(|argument| &**argument).collect(),
        Expr::NumberLiteral(_)
        | Expr::StringLiteral(_)
        | Expr::VectorSelector(_)
        | Expr::MatrixSelector(_)
        | Expr::Extension(_) => Vec::new(),
    };
    inside.into_iter()
}

/// Every selector in it.
pub(crate) fn of(expr: &Expr) -> Vec<&VectorSelector> {
    match expr {
        Expr::VectorSelector(selector) => vec![selector],
        Expr::MatrixSelector(MatrixSelector { vs, .. }) => vec![vs],
        _ => children(expr).flat_map(of).collect(),
    }
}

/// Every range in it.
pub(crate) fn ranges(expr: &Expr) -> Vec<std::time::Duration> {
    match expr {
        Expr::MatrixSelector(selector) => vec![selector.range],
        _ => children(expr).flat_map(ranges).collect(),
    }
}
