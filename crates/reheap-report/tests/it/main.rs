//! The tests of `reheap-report`, in one executable: it is linked once, and all its tests run at once.

mod attacks;
mod fixtures;
mod forms;
mod golden;
mod matrix;
mod profile;
mod profile_compare;
mod profile_forms;
mod profile_page;
mod profile_tools;
mod profiles;
