//! A market without a ledger, on the ledger's path: the [`Stock`] of machines, the [`OfferBook`], prices of placements that
//! stand until [`Stock::stands`] says that they do not, and [`ExpectedWork`]. One order is one block.
//!
//! All offers ask the same and work alike, so what a place takes from the work to come decides alone: that part of the
//! ledger's cost is what traces of machines and jobs can tell about.

use std::collections::BTreeMap;

use tg_types::{
    Address, Amount, DurationMs, GpuLink, GpuModel, GpuModelSet, JobClass, JobNeeds, Label,
    LeaseId, Machine, ModeSet, OfferId, OfferTerms, Pricing, RegionSet, SharingMode, SharingSet,
    TierSet, TimestampMs, VerificationMode,
};

use tg_market::book::{Looks, Mark, OfferBook, Rates, Standing};
use tg_market::cluster::{Cluster, Interconnect, Isolation, NodeIndex, NodeSpec, Request, Sharing};
use tg_market::demand::JobDemand;
use tg_market::packing::{ExpectedWork, WorkloadProfile};
use tg_market::record::TrackRecord;
use tg_market::throughput::ThroughputMatrix;
use tg_market::view::{Hold, PackingPrices, PriceAnchor, Stock, mig_model, request_of};
use tg_types::draw::mix;

/// When every order comes, as far as leases are concerned: nothing is booked for later.
const NOW: TimestampMs = TimestampMs::new(1_000);

/// How long every lease is declared to take.
const DECLARED: DurationMs = DurationMs::from_secs(60);

/// What a GPU second costs: so much that no two costs of places are rounded to one.
const SECOND: Amount = Amount::new(1_000_000_000_000);

/// Where a job runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The machine.
    pub node: NodeIndex,
    /// Its GPUs, a bit for each.
    pub devices: u8,
    /// The lease; 0 where a rule has none.
    pub lease: u64,
}

/// Machines and orders as the ledger matches them.
#[derive(Debug, Clone)]
pub struct LedgerMarket {
    standings: Vec<Standing>,
    numbers: BTreeMap<OfferId, u32>,
    stock: Stock,
    book: OfferBook,
    work: ExpectedWork,
    anchor: PriceAnchor,
    /// `None` if they are to be set anew.
    prices: Option<PackingPrices>,
    throughput: ThroughputMatrix,
    leases: u64,
    seed: [u8; 32],
}

impl LedgerMarket {
    /// An offer for each of `specs`, with `seed` for the order of equals; `None` if there is a GPU model or a region that
    /// the ledger cannot name, or partitions that GPUs of this model do not have.
    #[must_use]
    pub fn new(specs: &[NodeSpec], seed: u64) -> Option<Self> {
        let standings = (0..)
            .zip(specs)
            .map(|(number, spec)| standing(number, spec));
        let standings: Vec<Standing> = standings.collect::<Option<_>>()?;
        let work = ExpectedWork::default();
        let machines = standings.iter().map(|it| (it.offer, &it.terms.machine));
        let stock = Stock::new(machines, work.expected());
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_be_bytes());
        let mut book = OfferBook::new(bytes);
        for standing in &standings {
            book.set(standing.clone(), &stock);
        }
        Some(Self {
            numbers: standings.iter().map(|it| it.offer).zip(0..).collect(),
            standings,
            stock,
            book,
            work,
            anchor: PriceAnchor::default(),
            prices: None,
            throughput: ThroughputMatrix::default(),
            leases: 0,
            seed: bytes,
        })
    }

    /// The machines as they stand. Their numbers are not those of `specs`: see [`Place::node`].
    #[must_use]
    pub const fn cluster(&self) -> &Cluster {
        self.stock.cluster()
    }

    /// Expects work like `work` from now on, until more is learned than that.
    pub fn expect(&mut self, work: &WorkloadProfile) {
        self.stock.expect(work);
        self.prices = None;
    }

    /// Takes note of an order, as a block does that has it.
    pub fn observe(&mut self, request: &Request) {
        self.work.observe(request, 1);
        if self.work.learn() {
            self.stock.expect(self.work.expected());
            self.prices = None;
        }
    }

    /// Leases the cheapest place for `request` that a block finds; `None` if there is none.
    pub fn place(&mut self, request: &Request) -> Option<Place> {
        let needs = needs_of(request)?;
        let request = request_of(&needs).ok()?;
        self.set_prices();
        let quote = {
            let rates = Rates {
                class_prices: &[Amount::ZERO; GpuModel::ALL.len()],
                throughput: &self.throughput,
            };
            let demand = self.demand(&needs);
            let looks = &mut Looks::default();
            self.book.cheapest(&demand, &rates, looks, None)?
        };
        self.leases += 1;
        let hold = Hold {
            lease: lease_id(self.leases),
            offer: quote.offer,
            devices: quote.devices,
            partition: quote.partition,
            request,
            from: NOW,
            until: quote.until,
        };
        self.stock.take(&hold, NOW).ok()?;
        let number = *self.numbers.get(&quote.offer)?;
        self.enter(number, |free| free.saturating_sub(1));
        Some(Place {
            node: NodeIndex(number),
            devices: quote.devices,
            lease: self.leases,
        })
    }

    /// Ends the lease of `place`.
    pub fn release(&mut self, place: &Place) {
        self.stock.give_back(&lease_id(place.lease));
        self.enter(place.node.0, |free| free.saturating_add(1));
    }

    fn enter(&mut self, number: u32, slots: impl Fn(u16) -> u16) {
        let standing = &mut self.standings[number as usize];
        standing.slots_free = slots(standing.slots_free);
        self.book.set(standing.clone(), &self.stock);
    }

    /// As the ledger does in the first match of a block.
    fn set_prices(&mut self) {
        if !self.stock.stands(&self.anchor) {
            self.anchor = self.stock.anchor(self.book.middle_asks());
            self.prices = None;
        }
        if self.prices.is_none() {
            self.prices = self.stock.prices_from(&self.anchor);
        }
    }

    fn demand<'a>(&'a self, needs: &'a JobNeeds) -> JobDemand<'a> {
        JobDemand {
            macs: 0,
            memory_bytes: 0,
            mode: VerificationMode::Proof,
            stake_min: Amount::ZERO,
            max_price: Amount::new(1),
            now: NOW,
            deadline: TimestampMs::new(u64::MAX),
            spare: DurationMs::ZERO,
            excluded: &[],
            tie_seed: self.seed,
            needs,
            stock: Some(&self.stock),
            prices: self.prices.as_ref(),
            start: NOW,
            lease_factor: 3,
            lease_grace: DurationMs::from_secs(20),
        }
    }
}

/// Offer `number`, of a machine like `spec`.
fn standing(number: u32, spec: &NodeSpec) -> Option<Standing> {
    let gpu = GpuModel::from_tag(spec.gpu.model)?;
    let sharing = match spec.gpu.sharing {
        Sharing::WholeOnly => SharingSet::NONE,
        Sharing::TimeSlice => SharingSet::of(&[SharingMode::TimeSlice]),
        Sharing::Mps => SharingSet::of(&[SharingMode::Mps]),
        Sharing::Mig(model) if mig_model(gpu) == Some(model) => SharingSet::of(&[SharingMode::Mig]),
        Sharing::Mig(_) => return None,
    };
    let machine = Machine {
        gpu_count: spec.gpu_count,
        gpu,
        gpu_memory_mib: spec.gpu.memory_mib,
        capability: spec.gpu.capability,
        tensor_cores: spec.gpu.tensor_cores,
        link: link(spec.gpu.interconnect),
        sharing,
        cpu_milli: spec.cpu_milli,
        memory_mib: spec.memory_mib,
        disk_gib: spec.disk_gib,
        region: region(spec.region)?,
        coordinate_us: spec.coordinate,
        tiers: TierSet::ON_DEMAND,
    };
    let mut offer = [0; 32];
    offer[..8].copy_from_slice(&mix(u64::from(number)).to_be_bytes());
    offer[8..12].copy_from_slice(&number.to_be_bytes());
    let mut provider = [0; 20];
    provider.copy_from_slice(&offer[..20]);
    Some(Standing {
        offer: OfferId::new(offer),
        provider: Address::new(provider),
        terms: OfferTerms {
            hardware: Label::default(),
            price_base: Amount::ZERO,
            price_per_mmac: Amount::ZERO,
            latency_base_ms: DECLARED,
            speed_mmac_per_s: 1,
            memory_bytes: 0,
            slots: u16::MAX,
            collateral_per_lease: Amount::ZERO,
            modes: ModeSet::UNSEALED,
            machine,
            price_per_gpu_second: SECOND,
            pricing: Pricing::Fixed,
        },
        slots_free: u16::MAX,
        funds: Amount::ZERO,
        suspended_until: TimestampMs::ZERO,
        record: TrackRecord::default(),
        marks: [Mark::default(); JobClass::ALL.len()],
        offline: false,
    })
}

/// What an order for `request` needs; `None` if the ledger cannot say it.
fn needs_of(request: &Request) -> Option<JobNeeds> {
    let needs = request.needs();
    let models: Vec<GpuModel> = GpuModel::ALL
        .iter()
        .copied()
        .filter(|model| needs.models.contains(model.tag()))
        .collect();
    Some(JobNeeds {
        gpus: request.gpus(),
        gpu_milli: request.gpu_milli(),
        gpu_memory_mib: request.gpu_memory_mib(),
        models: GpuModelSet::of(&models),
        capability_min: needs.capability_min,
        tensor_cores: needs.tensor_cores,
        link_min: link(needs.interconnect_min),
        isolation: match needs.isolation {
            Isolation::TimeSlice => SharingMode::TimeSlice,
            Isolation::Mps => SharingMode::Mps,
            Isolation::Hardware => SharingMode::Whole,
        },
        cpu_milli: request.cpu_milli(),
        memory_mib: request.memory_mib(),
        disk_gib: request.disk_gib(),
        regions: match needs.region {
            None => RegionSet::ANY,
            Some(number) => RegionSet::only(region(number)?),
        },
        ..JobNeeds::ANY_MACHINE
    })
}

fn region(number: u16) -> Option<u8> {
    let region = u8::try_from(number).ok();
    region.filter(|it| *it < tg_types::resources::REGIONS_MAX)
}

const fn link(interconnect: Interconnect) -> GpuLink {
    match interconnect {
        Interconnect::Pcie => GpuLink::Pcie,
        Interconnect::Nvlink => GpuLink::Nvlink,
        Interconnect::Nvswitch => GpuLink::Nvswitch,
    }
}

fn lease_id(number: u64) -> LeaseId {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&mix(number).to_be_bytes());
    bytes[8..16].copy_from_slice(&number.to_be_bytes());
    LeaseId::new(bytes)
}
