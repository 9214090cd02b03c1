import HTTPTypes
import Hummingbird

/// Holds every answer back for as long as the faults say.
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

/// Fails the requests whose turn it is, before they change anything.
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
            return JSONResponse.error(HTTPResponse.Status(code: status), "The mock was told to fail this request.")
        }
        return try await next(request, context)
    }
}
