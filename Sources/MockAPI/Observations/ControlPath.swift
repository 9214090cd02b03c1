import Hummingbird

/// The path by which a test looks at the mock. It is not part of what is observed, delayed or made to fail.
struct ObservationEndpoint: Sendable {
    static let path = "/__mock/requests"

    let isExposed: Bool

    func matches(_ request: Request) -> Bool {
        isExposed && request.uri.path == Self.path
    }
}
