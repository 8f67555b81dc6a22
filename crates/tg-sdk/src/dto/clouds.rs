//! What clouds ask for hardware.

use serde::{Deserialize, Serialize};
use tg_types::GpuModel;

use crate::text;

/// What clouds ask for hardware, by the table that a node was started with. Nobody asks the clouds: each row is a note of a page
/// on a day.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CloudPricesDto {
    /// What a TGRID is worth in dollars to whoever wrote the table; absent if the table does not say it. No market does.
    #[serde(default)]
    pub usd_per_tgrid: Option<f64>,
    /// The rows, 1,000 at most, in the table's order.
    pub rows: Vec<CloudPriceDto>,
}

/// What one cloud asks for one product.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CloudPriceDto {
    /// The cloud.
    pub cloud: String,
    /// What it sells under which terms.
    pub product: String,
    /// The model of its GPUs; absent if the price is for virtual cores.
    #[serde(with = "text::option", default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub gpu: Option<GpuModel>,
    /// How many GPUs the price is for; 0 if it is for virtual cores.
    pub gpus: u16,
    /// How many virtual cores the price is for; 0 if it is for GPUs.
    pub vcpus: u16,
    /// Dollars an hour.
    pub usd_per_hour: f64,
    /// The day on which the page said so, such as `2026-11-27`.
    pub read_on: String,
    /// The address of the page.
    pub source: String,
}
