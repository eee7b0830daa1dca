use std::hint::black_box;

#[link(name = "probe", kind = "static")]
unsafe extern "C" {
    fn probe();
}

struct Basket<T>(T);

impl<T: std::fmt::Debug> Basket<T> {
    #[inline(always)]
    fn fill_inlined(&self) {
        unsafe { probe() };
        black_box(&self.0);
    }

    #[inline(never)]
    fn fill(&self) {
        self.fill_inlined();
        black_box(&self.0);
    }
}

#[inline(never)]
fn market() {
    let closure = |basket: Basket<u32>| {
        basket.fill();
        black_box(&basket.0);
    };
    black_box(closure)(Basket(7));
    black_box(());
}

fn main() {
    std::thread::spawn(market).join().unwrap();
}
