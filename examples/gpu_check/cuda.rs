//! What only the CUDA driver can say, and copies that are made without Burn.

#[cfg(feature = "cuda")]
pub(crate) use real::{Cuda, ask_driver, compile};

#[cfg(not(feature = "cuda"))]
pub(crate) use absent::{Cuda, ask_driver, compile};

/// A kernel that includes every header that CubeCL's kernels may include.
#[cfg(feature = "cuda")]
const SOURCE: &str = include_str!("headers.cu");

#[cfg(feature = "cuda")]
mod real {
    use anyhow::{Context, Result, anyhow, ensure};
    use cudarc::driver::{CudaContext, result, sys};
    use std::sync::Arc;
    use std::time::Instant;

    /// The primary context of a device, which Burn uses too.
    pub(crate) struct Cuda {
        index: usize,
        context: Arc<CudaContext>,
    }

    impl Cuda {
        /// # Errors
        /// The driver refused.
        pub(crate) fn open(index: usize) -> Result<Self> {
            let context = CudaContext::new(index).context("opening the CUDA device")?;
            Ok(Self { index, context })
        }

        pub(crate) fn index(&self) -> usize {
            self.index
        }

        /// Name, memory and driver.
        pub(crate) fn describe(&self) -> Result<String> {
            let (mut version, total) = (0, self.context.total_mem()?);
            // SAFETY: the pointer is valid for the call.
            unsafe { sys::cuDriverGetVersion(&mut version) }.result()?;
            Ok(format!(
                "{}, {:.1} GiB, driver for CUDA {}.{}",
                self.context.name()?,
                total as f64 / (1u64 << 30) as f64,
                version / 1000,
                version % 1000 / 10,
            ))
        }

        /// Bytes of the device's memory that are taken, by whomever.
        pub(crate) fn memory_in_use(&self) -> Result<u64> {
            self.context.bind_to_thread()?;
            let (free, total) = self.context.mem_get_info()?;
            Ok((total - free) as u64)
        }

        /// Whether the driver knows this memory as page-locked.
        pub(crate) fn is_page_locked(&self, memory: &mut [f32]) -> Result<bool> {
            self.context.bind_to_thread()?;
            let mut kind = 0u32;
            // SAFETY: the attribute is a 32-bit enumeration, and `kind` is valid for the call. The
            // driver only looks the address up.
            let answer = unsafe {
                sys::cuPointerGetAttribute(
                    (&raw mut kind).cast(),
                    sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                    memory.as_mut_ptr() as sys::CUdeviceptr,
                )
            };
            // Memory that it does not know is an invalid value.
            let host = sys::CUmemorytype::CU_MEMORYTYPE_HOST as u32;
            Ok(answer.result().is_ok() && kind == host)
        }

        /// Seconds of each of `times` copies of page-locked `memory` to the device, one after the
        /// other on a stream of their own: what the link gives when nothing is in the way.
        pub(crate) fn plain_copies(&self, memory: &mut [f32], times: usize) -> Result<Vec<f64>> {
            ensure!(
                self.is_page_locked(memory)?,
                "the memory to copy is not page-locked"
            );
            let stream = self.context.new_stream()?;
            let mut there = stream.alloc_zeros::<f32>(memory.len())?;
            stream.synchronize()?;
            let mut seconds = Vec::with_capacity(times);
            for _ in 0..times {
                let started = Instant::now();
                stream.memcpy_htod(&*memory, &mut there)?;
                stream.synchronize()?;
                seconds.push(started.elapsed().as_secs_f64());
            }
            Ok(seconds)
        }

        /// Copies `memory` to the device until told to stop, so that other copies have to queue.
        pub(crate) fn keep_copying(
            &self,
            memory: &mut [f32],
            go_on: &dyn Fn() -> bool,
        ) -> Result<u64> {
            let mut copies = 0;
            while go_on() {
                copies += self.plain_copies(memory, 16)?.len() as u64;
            }
            Ok(copies)
        }
    }

    /// Whether the driver works, if there is one. No driver, and no device, are no errors.
    ///
    /// # Errors
    /// The driver's own words, such as that the system is not yet initialised.
    pub(crate) fn ask_driver() -> Result<()> {
        // cudarc panics when it cannot load the library: ask first.
        // SAFETY: looks for a shared library and runs none of our code.
        if !unsafe { sys::is_culib_present() } {
            return Ok(());
        }
        match result::init().and_then(|()| result::device::get_count()) {
            Ok(_) => Ok(()),
            Err(error) if error.0 == sys::CUresult::CUDA_ERROR_NO_DEVICE => Ok(()),
            Err(error) => Err(error).context("the CUDA driver is installed, but does not work"),
        }
    }

    /// Compiles a kernel as CubeCL does, for an H100 or H200, and says with which NVRTC. Needs no
    /// GPU.
    ///
    /// # Errors
    /// No NVRTC, no headers, or the compiler's own words.
    pub(crate) fn compile() -> Result<String> {
        use cudarc::nvrtc::{CompileOptions, compile_ptx_with_opts, sys as nvrtc};
        // cudarc panics when it cannot load the library: ask first.
        // SAFETY: looks for a shared library and runs none of our code.
        ensure!(
            unsafe { nvrtc::is_culib_present() },
            "libnvrtc was not found: it is in the bundle's `lib`, which `run.sh` puts on the path"
        );
        let path = std::env::var("CUDA_PATH").context(
            "CUDA_PATH is not set: it names the folder whose `include` has the CUDA headers",
        )?;
        let include = format!("{path}/include");
        let options = CompileOptions {
            include_paths: vec![include.clone(), format!("{include}/cccl")],
            options: vec!["--gpu-architecture=sm_90a".into()],
            ..CompileOptions::default()
        };
        let (mut major, mut minor) = (0, 0);
        // SAFETY: both pointers are valid for the call.
        unsafe { nvrtc::nvrtcVersion(&mut major, &mut minor) }
            .result()
            .map_err(|e| anyhow!("asking NVRTC for its version: {e:?}"))?;
        compile_ptx_with_opts(super::SOURCE, options)
            .map_err(|e| anyhow!("NVRTC {major}.{minor} with the headers of {include}: {e:?}"))?;
        Ok(format!("NVRTC {major}.{minor}, headers of {include}"))
    }
}

#[cfg(not(feature = "cuda"))]
mod absent {
    use anyhow::{Result, bail};

    /// No value of this type exists in a build without CUDA.
    pub(crate) enum Cuda {}

    impl Cuda {
        pub(crate) fn open(_: usize) -> Result<Self> {
            bail!("this build has no CUDA: build it with `--features cuda`")
        }

        pub(crate) fn describe(&self) -> Result<String> {
            match *self {}
        }

        pub(crate) fn memory_in_use(&self) -> Result<u64> {
            match *self {}
        }

        pub(crate) fn is_page_locked(&self, _: &mut [f32]) -> Result<bool> {
            match *self {}
        }

        pub(crate) fn plain_copies(&self, _: &mut [f32], _: usize) -> Result<Vec<f64>> {
            match *self {}
        }

        pub(crate) fn keep_copying(&self, _: &mut [f32], _: &dyn Fn() -> bool) -> Result<u64> {
            match *self {}
        }
    }

    pub(crate) fn ask_driver() -> Result<()> {
        Ok(())
    }

    pub(crate) fn compile() -> Result<String> {
        bail!("this build has no CUDA: build it with `--features cuda`")
    }
}
