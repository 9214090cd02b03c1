import CloakroomConfig
import CloakroomCore
import ServiceLifecycle
import Synchronization
import UnixSignals

/// Reloads the configuration on SIGHUP, on request, and when one of its files has changed, while requests are served.
///
/// A new configuration is read and validated completely, then applied atomically. Reloads never overlap.
struct ReloadService: Service, Unprintable {
    /// The events that start a reload or a poll; see ``ReloadTrigger/live(_:requests:)``.
    let triggers: AsyncStream<ReloadTrigger>
    let reloader: Reloader

    func run() async {
        var reloader = reloader
        for await trigger in triggers.cancelOnGracefulShutdown() {
            let outcome = await reloader.handle(trigger)
            if case .request(let request) = trigger { request.complete(outcome) }
        }
    }
}

/// An event that makes a running gateway read its configuration again.
enum ReloadTrigger: Sendable, Equatable {
    /// SIGHUP: the configuration is read and applied even if no file has changed.
    case signal
    /// The same as a signal; the outcome is returned.
    case request(ReloadRequest)
    /// The poll interval has passed. A change is applied when two consecutive polls find the same contents.
    case poll

    /// Whether an operator asked for the reload, so that it has an outcome even if no file has changed.
    var isDemand: Bool { self != .poll }
}

/// The stages of a reload. An end may follow without a beginning, if the files that a poll found are invalid.
enum ReloadProgress: Sendable, Equatable {
    case began
    case ended
}

/// A request for a reload, to be completed once with its outcome. One that is discarded is completed without an outcome.
final class ReloadRequest: Sendable, Equatable {
    private let continuation: Mutex<CheckedContinuation<ReloadOutcome?, Never>?>

    init(_ continuation: CheckedContinuation<ReloadOutcome?, Never>) {
        self.continuation = Mutex(continuation)
    }

    deinit { complete(nil) }

    /// - Parameter outcome: `nil` if the gateway is stopping.
    func complete(_ outcome: ReloadOutcome?) {
        let continuation = continuation.withLock { continuation in
            defer { continuation = nil }
            return continuation
        }
        continuation?.resume(returning: outcome)
    }

    static func == (left: ReloadRequest, right: ReloadRequest) -> Bool { left === right }
}

/// The requests for reloads of a process, in order.
struct ReloadRequests: Sendable {
    let stream: AsyncStream<ReloadRequest>
    private let continuation: AsyncStream<ReloadRequest>.Continuation

    init() {
        (stream, continuation) = AsyncStream.makeStream()
    }

    /// Reloads the configuration and returns the outcome; `nil` if the gateway is stopping.
    func perform() async -> ReloadOutcome? {
        await withCheckedContinuation { continuation in
            self.continuation.yield(ReloadRequest(continuation))
        }
    }
}

extension ReloadTrigger {
    /// Returns a stream of SIGHUP signals, of requests, and of polls at the interval of the current configuration.
    ///
    /// Must be called before the listeners start, because SIGHUP ends the process until this call. The tasks that it
    /// starts end with the stream.
    static func live(_ state: ReloadState, requests: ReloadRequests) async -> AsyncStream<ReloadTrigger> {
        let signals = await UnixSignalsSequence(trapping: .sighup)
        let (stream, continuation) = AsyncStream<ReloadTrigger>.makeStream()
        let waiting = Task {
            for await _ in signals { continuation.yield(.signal) }
        }
        let requested = Task {
            for await request in requests.stream { continuation.yield(.request(request)) }
        }
        let polling = Task {
            while !Task.isCancelled {
                let interval = state.configuration.interval
                // A reload can enable polling. Its shortest interval is 0.1 s.
                try await Task.sleep(for: interval == .zero ? .seconds(10) : max(interval, .milliseconds(100)))
                if state.configuration.interval > .zero { continuation.yield(.poll) }
            }
        }
        continuation.onTermination = { _ in
            waiting.cancel()
            requested.cancel()
            polling.cancel()
        }
        return stream
    }
}
