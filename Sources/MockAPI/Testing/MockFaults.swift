import HTTPTypes
import Hummingbird
import Synchronization

/// The faults of a mock. Initialized from the settings; tests can change them while the mock runs.
///
/// Failures apply only to requests with the correct `X-API-TOKEN`; others get 403 and are not counted here.
///
/// Folder `Testing/`: faults, recorded traffic and routes that exist only for tests.
public final class MockFaults: Sendable {
    private struct State {
        var latency: Duration
        var schedule: ErrorSchedule
        var configured: [String: [Int]] = [:]
    }

    private let state: Mutex<State>

    init(latency: Duration, errorRate: Double, errorSeed: Int) {
        state = Mutex(State(latency: latency, schedule: ErrorSchedule(rate: errorRate, seed: errorSeed)))
    }

    /// Delays every further response by this duration.
    public func setLatency(_ latency: Duration) {
        state.withLock { $0.latency = latency }
    }

    /// Responds with 500 to this fraction (0...1) of further requests, evenly distributed.
    public func setErrorRate(_ rate: Double) {
        state.withLock { $0.schedule.rate = rate }
    }

    /// Responds to the next requests with this method and path (no query) with these statuses (400...599), one each,
    /// instead of serving them. Appended to the already scheduled ones.
    public func failNext(_ method: String, _ path: String, statuses: [Int] = [500]) {
        state.withLock { $0.configured["\(method) \(path)", default: []] += statuses.map { min(max($0, 400), 599) } }
    }

    var latency: Duration {
        state.withLock { $0.latency }
    }

    /// The failure status for this request; `nil` if it is to succeed.
    func nextFailure(method: String, path: String) -> Int? {
        state.withLock { state in
            let key = "\(method) \(path)"
            if var configured = state.configured[key], !configured.isEmpty {
                let status = configured.removeFirst()
                state.configured[key] = configured.isEmpty ? nil : configured
                return status
            }
            return state.schedule.nextFails() ? 500 : nil
        }
    }
}

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

/// Distributes failures evenly over requests: of every `n` consecutive requests, `rate · n` fail, rounded down or up.
///
/// Deterministic, so tests know the failing requests: at a rate of 0.25 and seed 0 the 4th, the 8th and so on.
struct ErrorSchedule {
    /// The failure rate, clamped to 0...1.
    var rate: Double {
        didSet { rate = Self.clamp(rate) }
    }
    private var count: Int

    init(rate: Double, seed: Int) {
        self.rate = Self.clamp(rate)
        // A larger seed would exceed the range in which a Double represents all integers.
        count = seed % 1_000_000_000
    }

    /// Returns whether the next request fails.
    mutating func nextFails() -> Bool {
        let before = (Double(count) * rate).rounded(.down)
        count += 1
        return (Double(count) * rate).rounded(.down) > before
    }

    private static func clamp(_ rate: Double) -> Double {
        rate.isNaN ? 0 : min(max(rate, 0), 1)
    }
}
