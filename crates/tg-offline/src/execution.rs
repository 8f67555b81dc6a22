//! The device that `--device` names, or why there is none.

use tg_console::outcome::{Exit, Failure, say};
use tg_cuda::{
    CudaError, DeviceChoice, ExecutionDevice, Missing, NVRTC_VARIABLE, NvrtcError, select,
};

/// Opens the device for executions. A GPU runs the check first; what is taken, and why no GPU is, is said in one line.
///
/// # Errors
/// If a GPU was named that is not there, or that failed the check.
pub fn choose(choice: DeviceChoice) -> Result<ExecutionDevice, Failure> {
    let selection = select(choice).map_err(refused)?;
    let device = selection.device;
    let reasons = reasons(&selection.passed_over);
    match selection.check {
        Some(check) => {
            let also = if reasons.is_empty() {
                reasons
            } else {
                format!("; {reasons}")
            };
            say(format_args!(
                "executing on {device}: {} families of operators have the bits of the CPU{also}",
                check.families.len()
            ));
        }
        None if choice == DeviceChoice::Auto => {
            say(format_args!("executing on {device}: {reasons}"))
        }
        None => {}
    }
    Ok(device)
}

/// Errors in one line.
pub(super) fn reasons(errors: &[CudaError]) -> String {
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    texts.join("; ")
}

/// A GPU that cannot be used, with what to do about it.
pub(super) fn refused(error: CudaError) -> Failure {
    let exit = match &error {
        CudaError::Missing(_)
        | CudaError::Compile(NvrtcError::NotFound { .. })
        | CudaError::NoSuchDevice { .. }
        | CudaError::TooOld { .. } => Exit::NotFound,
        CudaError::Compile(_) | CudaError::Driver(_) | CudaError::Refused { .. } => Exit::Failed,
    };
    let hint = match &error {
        CudaError::Missing(Missing::Driver) => {
            "install NVIDIA's driver, which brings libcuda.so.1; --device cpu needs none".to_owned()
        }
        CudaError::Missing(Missing::Compiler(_)) | CudaError::Compile(_) => {
            format!("install NVRTC 11.2 or newer, or name its file in {NVRTC_VARIABLE}")
        }
        CudaError::Refused { .. } => {
            "nothing is executed on this device; `tensorgrid device --check` prints the whole report"
                .to_owned()
        }
        _ => "`tensorgrid device` lists the GPUs; CUDA_VISIBLE_DEVICES says which the driver shows"
            .to_owned(),
    };
    Failure::new(exit, error).hint(hint)
}
