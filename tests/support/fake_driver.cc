// A stand-in for libcuda.so.1 without a device, for libraries that compile and load kernels. The
// stand-in accepts every kernel and runs no kernel. Driver functions that this file does not define
// return an error (kStub).
namespace {

constexpr int kSuccess = 0, kStub = 34;  // values of CUresult, the driver's error codes
int anything;

int Take(void** handle) {
  *handle = &anything;
  return kSuccess;
}

}  // namespace

#define TANDEM_TAKES(name) \
  extern "C" int name(void** handle) { return Take(handle); }
#define TANDEM_REFUSES(name) \
  extern "C" int name() { return kStub; }

TANDEM_TAKES(cuLibraryLoadData)
TANDEM_TAKES(cuLibraryGetKernel)
TANDEM_REFUSES(cuCtxGetCurrent)
TANDEM_REFUSES(cuCtxGetLimit)
TANDEM_REFUSES(cuCtxPopCurrent)
TANDEM_REFUSES(cuCtxPushCurrent)
TANDEM_REFUSES(cuDeviceGet)
TANDEM_REFUSES(cuDeviceGetCount)
TANDEM_REFUSES(cuDriverGetVersion)
TANDEM_REFUSES(cuGetErrorName)
TANDEM_REFUSES(cuGetErrorString)
TANDEM_REFUSES(cuGetExportTable)
TANDEM_REFUSES(cuGetProcAddress_v2)
TANDEM_REFUSES(cuKernelGetAttribute)
TANDEM_REFUSES(cuKernelSetAttribute)
TANDEM_REFUSES(cuLaunchCooperativeKernel)
TANDEM_REFUSES(cuLaunchKernel)
TANDEM_REFUSES(cuLaunchKernelEx)
TANDEM_REFUSES(cuLibraryLoadFromFile)
TANDEM_REFUSES(cuLibraryUnload)
TANDEM_REFUSES(cuLinkAddData)
TANDEM_REFUSES(cuLinkComplete)
TANDEM_REFUSES(cuLinkCreate)
TANDEM_REFUSES(cuLinkDestroy)
TANDEM_REFUSES(cuOccupancyMaxPotentialClusterSize)
TANDEM_REFUSES(cuStreamGetCtx)
