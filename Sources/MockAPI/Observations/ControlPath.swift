import Hummingbird

/// The path for tests to read the observations. Requests to it are not recorded, delayed or failed.
struct ObservationEndpoint: Sendable {
    static let path = "/__mock/requests"

    let isExposed: Bool

    func matches(_ request: Request) -> Bool {
        isExposed && request.uri.path == Self.path
    }
}
