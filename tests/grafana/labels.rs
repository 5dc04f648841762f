//! Which labels the series have that an expression yields.

use std::collections::BTreeSet;

use promql_parser::label::MatchOp;
use promql_parser::parser::{
    AggregateExpr, BinaryExpr, Call, Expr, LabelModifier, VectorMatchCardinality, VectorSelector, token,
};

use crate::catalog::Catalog;
use crate::values;

pub(crate) type Labels = BTreeSet<String>;

/// The labels of what `expr` yields; what it asks of labels that are not there is a fault.
pub(crate) fn of(expr: &Expr, catalog: &Catalog, faults: &mut Vec<String>) -> Labels {
    match expr {
        Expr::VectorSelector(selector) => of_selector(selector, catalog, faults),
        Expr::MatrixSelector(selector) => of_selector(&selector.vs, catalog, faults),
        Expr::Aggregate(aggregate) => of_aggregate(aggregate, catalog, faults),
        Expr::Binary(binary) => of_binary(binary, catalog, faults),
        Expr::Call(call) => of_call(call, catalog, faults),
        Expr::Paren(it) => of(&it.expr, catalog, faults),
        Expr::Unary(it) => of(&it.expr, catalog, faults),
        Expr::Subquery(it) => of(&it.expr, catalog, faults),
        Expr::NumberLiteral(_) | Expr::StringLiteral(_) | Expr::Extension(_) => Labels::new(),
    }
}

fn of_selector(selector: &VectorSelector, catalog: &Catalog, faults: &mut Vec<String>) -> Labels {
    let name = selector.name.as_deref().unwrap_or_default();
    let Some(series) = catalog.find(name) else {
        faults.push(format!("there is no series `{name}`"));
        return Labels::new();
    };
    for matcher in &selector.matchers.matchers {
        if !series.labels.contains(&matcher.name) {
            faults.push(format!("`{name}` has no label `{}`", matcher.name));
        }
        let never = values::never(name, &matcher.name, &matcher.value).into_iter();
        faults.extend(never.map(|value| format!("`{}` of `{name}` is never `{value}`", matcher.name)));
    }
    series.labels.clone()
}

fn of_aggregate(aggregate: &AggregateExpr, catalog: &Catalog, faults: &mut Vec<String>) -> Labels {
    let inside = of(&aggregate.expr, catalog, faults);
    match &aggregate.modifier {
        None => Labels::new(),
        Some(LabelModifier::Include(by)) => {
            expect(&inside, by.labels.iter(), "by", faults);
            by.labels.iter().cloned().collect()
        }
        Some(LabelModifier::Exclude(without)) => {
            expect(&inside, without.labels.iter(), "without", faults);
            inside
                .into_iter()
                .filter(|label| !without.labels.contains(label))
                .collect()
        }
    }
}

fn expect<'a>(labels: &Labels, wanted: impl Iterator<Item = &'a String>, word: &str, faults: &mut Vec<String>) {
    let gone = wanted.filter(|label| !labels.contains(*label));
    faults.extend(gone.map(|label| format!("{word} ({label}): there are {labels:?}")));
}

fn of_binary(binary: &BinaryExpr, catalog: &Catalog, faults: &mut Vec<String>) -> Labels {
    let left = of(&binary.lhs, catalog, faults);
    let right = of(&binary.rhs, catalog, faults);
    if is_scalar(&binary.lhs) {
        return right;
    }
    if is_scalar(&binary.rhs) {
        return left;
    }
    if binary.op.id() == token::T_LOR {
        return left.into_iter().chain(right).collect();
    }
    let modifier = binary.modifier.as_ref();
    match modifier.and_then(|it| it.matching.as_ref()) {
        Some(LabelModifier::Include(on)) => {
            expect(&left, on.labels.iter(), "on", faults);
            expect(&right, on.labels.iter(), "on", faults);
            let is_set = matches!(binary.op.id(), token::T_LAND | token::T_LUNLESS);
            match modifier.map(|it| &it.card) {
                Some(VectorMatchCardinality::OneToOne) if !is_set => on.labels.iter().cloned().collect(),
                _ => left,
            }
        }
        Some(LabelModifier::Exclude(_)) => left,
        None => {
            if left != right {
                faults.push(format!("{left:?} never meet {right:?} without `on`"));
            }
            left
        }
    }
}

fn is_scalar(expr: &Expr) -> bool {
    match expr {
        Expr::NumberLiteral(_) => true,
        Expr::Paren(it) => is_scalar(&it.expr),
        Expr::Unary(it) => is_scalar(&it.expr),
        Expr::Binary(it) => is_scalar(&it.lhs) && is_scalar(&it.rhs),
        Expr::Call(it) => matches!(it.func.name, "time" | "scalar"),
        _ => false,
    }
}

fn of_call(call: &Call, catalog: &Catalog, faults: &mut Vec<String>) -> Labels {
    let mut labels = Labels::new();
    for argument in &call.args.args {
        labels.extend(of(argument, catalog, faults));
    }
    let texts: Vec<&str> = call.args.args.iter().filter_map(|argument| text(argument)).collect();
    match call.func.name {
        "histogram_quantile" => {
            expect(&labels, [&"le".to_owned()].into_iter(), "histogram_quantile", faults);
            labels.remove("le");
        }
        "label_replace" => {
            if let [to, _, from, _] = texts[..] {
                expect(&labels, [&from.to_owned()].into_iter(), "label_replace", faults);
                labels.insert(to.to_owned());
            }
        }
        "absent" => labels = call.args.args.iter().flat_map(|argument| stated(argument)).collect(),
        _ => {}
    }
    labels
}

fn text(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::StringLiteral(it) => Some(&it.val),
        _ => None,
    }
}

/// The labels whose value the selector itself states: what `absent` yields.
fn stated(expr: &Expr) -> Labels {
    let Expr::VectorSelector(selector) = expr else {
        return Labels::new();
    };
    let equal = selector.matchers.matchers.iter().filter(|it| it.op == MatchOp::Equal);
    equal.map(|matcher| matcher.name.clone()).collect()
}
