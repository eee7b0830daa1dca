//! The tokenizers library: byte-pair encoding is learned from a text, then a longer text is encoded in batches.
//!
//! Learning counts words in hash tables and is one thread for the most part; encoding makes a handful of vectors for
//! each line on all threads. The text is made up, and its words are as unevenly frequent as those of languages are:
//! otherwise the library's cache of words would never, or always, have the next one.

mod text;

use rayon::ThreadPoolBuilder;
use std::fs;
use std::io::{self, Write as _};
use std::num::NonZeroU64;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use text::Text;
use tokenizers::models::bpe::{BPE, BpeTrainer};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{
    DecoderWrapper, NormalizerWrapper, PostProcessorWrapper, Result, TokenizerBuilder,
    TokenizerImpl,
};
use workload::{Arguments, Digest, Workload};

/// Lines that are learned from.
const LEARNED_LINES: usize = 20_000;
/// Tokens that are learned: enough that most words are made up of several.
const TOKENS: usize = 8_000;
/// Lines that are encoded together.
const BATCH_LINES: u64 = 1_000;

const TOKENIZE: Workload = Workload {
    name: "tokenize",
    about: "Learns byte pairs from a text and encodes lines with them in batches, on several threads.",
    operations: "encoded lines",
    amount: NonZeroU64::new(30_000).unwrap(),
    file: None,
};

type Tokenizer =
    TokenizerImpl<BPE, NormalizerWrapper, ByteLevel, PostProcessorWrapper, DecoderWrapper>;

fn main() -> ExitCode {
    workload::run(TOKENIZE, |arguments| {
        let pool = ThreadPoolBuilder::new().num_threads(arguments.threads.get());
        let pool = pool.build().map_err(io::Error::other)?;
        let digest = pool.install(|| learn_and_encode(&arguments));
        digest.map(Some).map_err(io::Error::other)
    })
}

fn learn_and_encode(arguments: &Arguments) -> Result<Digest> {
    let mut text = Text::from_seed(1);
    let tokenizer = learn(&mut text)?;
    let mut left = arguments.amount.get();
    let mut digests = Vec::new();
    let mut encoding = Duration::ZERO;
    while left > 0 {
        let lines = left.min(BATCH_LINES);
        let batch = text.by_ref().take(lines as usize).collect();
        let started = Instant::now();
        digests.push(encode(&tokenizer, batch)?);
        encoding += started.elapsed();
        left -= lines;
    }
    report(arguments.amount.get(), encoding)?;
    Ok(digests.into_iter().sum())
}

/// Says on standard error, which need not be the same in every run, how fast it was and what memory is left.
fn report(lines: u64, encoding: Duration) -> Result<()> {
    let rate = lines as f64 / encoding.as_secs_f64();
    let status = fs::read_to_string("/proc/self/status")?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let resident = resident.unwrap_or("unknown").trim();
    writeln!(io::stderr(), "tokenize: {rate:.0} lines/s, {resident} resident")?;
    Ok(())
}

fn learn(text: &mut Text) -> Result<Tokenizer> {
    let mut tokenizer: Tokenizer = TokenizerBuilder::new()
        .with_model(BPE::default())
        .with_pre_tokenizer(Some(ByteLevel::default()))
        .build()?;
    let mut trainer = BpeTrainer::builder()
        .vocab_size(TOKENS)
        .show_progress(false)
        .build();
    let lines: Vec<String> = text.take(LEARNED_LINES).collect();
    tokenizer.train(&mut trainer, lines.into_iter())?;
    Ok(tokenizer)
}

/// Encodes the lines as one batch, on all threads of the pool that this runs in.
fn encode(tokenizer: &Tokenizer, lines: Vec<String>) -> Result<Digest> {
    let mut digest = Digest::default();
    for encoding in tokenizer.encode_batch(lines, false)? {
        for id in encoding.get_ids() {
            digest.add(u64::from(*id));
        }
    }
    Ok(digest)
}
