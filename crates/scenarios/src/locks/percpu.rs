//! A lock for per-CPU lists, as scenario `pcp_lists` has it: access by the owning CPU alone with interrupts off,
//! against a spinlock that another CPU can take too.

use super::spin::Queued;
use tussle_sim::{Env, Op};

/// How the lists of one CPU are protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Interrupts off; only the CPU itself may touch its lists; others ask its worker to drain them.
    Local,
    /// Interrupts off and a spinlock that is tried; others take it and drain the lists themselves. The patch's choice.
    SpinIrq,
    /// The spinlock alone, where the series went later.
    Spin,
}

impl Kind {
    /// All kinds with their names on the command line.
    pub const NAMES: [(&'static str, Kind); 3] =
        [("local", Kind::Local), ("spinlock-irq", Kind::SpinIrq), ("spinlock", Kind::Spin)];

    /// By its name on the command line.
    pub fn parse(name: &str) -> Option<Kind> {
        Kind::NAMES.iter().find(|(n, _)| *n == name).map(|(_, k)| *k)
    }

    /// Another CPU can drain the lists itself.
    pub fn remote(self) -> bool {
        self != Kind::Local
    }
}

/// The lock of one CPU's lists.
#[derive(Clone, Debug)]
pub struct PerCpuLock {
    /// Which kind.
    pub kind: Kind,
    /// The spinlock, unused for [`Kind::Local`].
    pub spin: Queued,
    /// Cost of disabling and restoring interrupts, ns.
    pub irq_ns: u32,
}

impl PerCpuLock {
    /// Entered by the CPU itself. False when the lists are being drained from elsewhere: use the zone instead.
    pub async fn enter<E: Env>(&self, e: &E) -> bool {
        e.op(Op::PreemptOff).await;
        if self.kind != Kind::Spin {
            e.compute(self.irq_ns).await;
        }
        if self.kind == Kind::Local {
            // A process cannot switch interrupts off: there the spinlock stands in for it, uncontended but for drains.
            if !e.preemption_excludes() {
                self.spin.lock(e).await;
            }
            return true;
        }
        if self.spin.try_lock(e).await {
            return true;
        }
        e.op(Op::PreemptOn).await;
        false
    }

    /// Left by the CPU itself.
    pub async fn leave<E: Env>(&self, e: &E) {
        if self.kind != Kind::Local || !e.preemption_excludes() {
            self.spin.unlock(e).await;
        }
        e.op(Op::PreemptOn).await;
    }

    /// Taken from another CPU; only where [`Kind::remote`].
    pub async fn enter_remote<E: Env>(&self, e: &E) {
        self.spin.lock(e).await;
    }

    /// Given up from another CPU.
    pub async fn leave_remote<E: Env>(&self, e: &E) {
        self.spin.unlock(e).await;
    }
}
