import Hummingbird

/// The recorded traffic over HTTP, for tests in another process.
struct ObservationRoutes {
    let observations: RequestRecorder

    func register(on router: Router<BasicRequestContext>) {
        router.get("__mock/requests") { _, _ in try JSONResponse.noStore(observations.snapshot()) }
        router.delete("__mock/requests") { _, _ -> Response in
            observations.reset()
            return Response(status: .noContent)
        }
    }
}
