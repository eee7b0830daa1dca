//! Builds the variants that perform a trace: the replayer with each allocator preloaded, and static ones.

use crate::bench::given;
use crate::bench::measure::Measurement;
use crate::bench::ready::ReadyVariant;
use crate::bench::variants::{self, OfLibc, Typed};
use crate::replaying::{self, Prepared};
use reheap_allocators::target::Libc;
use reheap_bench::results::{Activity, LeftOut, Role};
use reheap_command::choice::{Choice, Hardened};
use reheap_command::ui;
use reheap_workshop::workshop::Workshop;

/// All variants that the user asked for, ready to run, and those that cannot take part. A variant of musl is a static
/// replayer. If the user names none: each allocator both ways.
///
/// # Errors
/// If a named variant cannot be made.
pub fn prepare(
    typed: &[Typed],
    prepared: &Prepared,
    measurement: &Measurement,
    workshop: &Workshop,
) -> anyhow::Result<(Vec<ReadyVariant>, Vec<LeftOut>)> {
    let names: Vec<String> = typed
        .iter()
        .map(|variant| variants::shown(variant, Libc::Glibc))
        .collect();
    variants::refuse_duplicates(&names)?;
    let is_static =
        |variant: &Typed| matches!(variant, Typed::OfLibc(of) if of.libc == Some(Libc::Musl));
    let (linked, preloaded): (Vec<Typed>, Vec<Typed>) = typed.iter().cloned().partition(is_static);
    let (mut ready, mut left_out) = (Vec::new(), Vec::new());
    if !preloaded.is_empty() || typed.is_empty() {
        let words = prepared.words(workshop)?;
        (ready, left_out) = given::prepare(&preloaded, &words, measurement, workshop)?;
    }
    for variant in &linked {
        if let Typed::OfLibc(OfLibc { choice, .. }) = variant {
            ready.push(static_variant(choice, prepared, workshop)?);
        }
    }
    if typed.is_empty() {
        add_all_static(prepared, workshop, &mut ready, &mut left_out)?;
    } else {
        ready.sort_by_key(|variant| names.iter().position(|name| *name == variant.name));
    }
    for (position, variant) in ready.iter_mut().enumerate() {
        variant.role = match position {
            0 => Role::Baseline,
            _ => Role::Candidate,
        };
    }
    Ok((ready, left_out))
}

fn add_all_static(
    prepared: &Prepared,
    workshop: &Workshop,
    ready: &mut Vec<ReadyVariant>,
    left_out: &mut Vec<LeftOut>,
) -> anyhow::Result<()> {
    let stock = Choice::of("stock", &[])?;
    for choice in std::iter::once(stock).chain(Choice::to_try(Hardened::LeftOut)?) {
        match static_variant(&choice, prepared, workshop) {
            Ok(variant) => ready.push(variant),
            Err(reason) => left_out.push(LeftOut {
                name: variants::name(Libc::Musl, &choice),
                reason: ui::printable(format!("{reason:#}")),
            }),
        }
    }
    Ok(())
}

fn static_variant(
    choice: &Choice,
    prepared: &Prepared,
    workshop: &Workshop,
) -> anyhow::Result<ReadyVariant> {
    let (program, proof) = replaying::linked(choice, workshop)?;
    let words = vec![program.into(), prepared.file.path().into()];
    Ok(ReadyVariant {
        activity: Activity::Seen(format!("in the executable: {proof}")),
        ..ReadyVariant::new(Libc::Musl, choice, words)
    })
}
