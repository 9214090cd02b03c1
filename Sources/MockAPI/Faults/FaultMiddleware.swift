import HTTPTypes
import Hummingbird

/// Delays every response by the configured latency.
struct LatencyMiddleware: RouterMiddleware {
    typealias Context = BasicRequestContext

    let faults: MockFaults
    let control: ObservationEndpoint

    func handle(
        _ request: Request, context: Context, next: (Request, Context) async throws -> Response
    ) async throws -> Response {
        let latency = faults.latency
        if latency > .zero, !control.matches(request) { try await Task.sleep(for: latency) }
        return try await next(request, context)
    }
}

/// Fails the scheduled requests before they change state.
struct FailureMiddleware: RouterMiddleware {
    typealias Context = BasicRequestContext

    let faults: MockFaults
    let control: ObservationEndpoint

    func handle(
        _ request: Request, context: Context, next: (Request, Context) async throws -> Response
    ) async throws -> Response {
        if !control.matches(request),
            let status = faults.nextFailure(method: request.method.rawValue, path: request.uri.path)
        {
            return JSONResponse.error(HTTPResponse.Status(code: status), "This failure was injected by the mock.")
        }
        return try await next(request, context)
    }
}
