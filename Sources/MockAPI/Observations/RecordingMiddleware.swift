import HTTPTypes
import Hummingbird

/// Records every request before it is processed.
struct RecordingMiddleware: RouterMiddleware {
    typealias Context = BasicRequestContext

    let observations: RequestRecorder
    let control: ObservationEndpoint

    func handle(
        _ request: Request, context: Context, next: (Request, Context) async throws -> Response
    ) async throws -> Response {
        if !control.matches(request) { observations.record(RecordedRequest(request.head)) }
        return try await next(request, context)
    }
}

extension RecordedRequest {
    init(_ head: HTTPRequest) {
        let parts = (head.path ?? "").split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        let host = head.authority.map { [RecordedHeader(name: "Host", value: $0)] } ?? []
        self.init(
            method: head.method.rawValue,
            path: parts.first.map(String.init) ?? "",
            query: parts.count == 2 ? String(parts[1]) : nil,
            headers: host + head.headerFields.map { RecordedHeader(name: $0.name.rawName, value: $0.value) })
    }
}
