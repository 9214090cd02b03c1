import CloakroomConfig
import UnixSignals

/// An event that makes a running gateway read its configuration again.
enum ReloadTrigger: Sendable, Equatable {
    /// SIGHUP: the configuration is read and applied even if no file has changed.
    case signal
    /// The poll interval has passed. A change is applied when two consecutive polls find the same contents.
    case poll
}

extension ReloadTrigger {
    /// Returns a stream of SIGHUP signals and of polls at the interval of the current configuration.
    ///
    /// Must be called before the listeners start, because SIGHUP ends the process until this call. The tasks that it
    /// starts end with the stream.
    static func live(_ state: ReloadState) async -> AsyncStream<ReloadTrigger> {
        let signals = await UnixSignalsSequence(trapping: .sighup)
        let (stream, continuation) = AsyncStream<ReloadTrigger>.makeStream()
        let waiting = Task {
            for await _ in signals { continuation.yield(.signal) }
        }
        let looking = Task {
            while !Task.isCancelled {
                try await Task.sleep(for: state.configuration.interval)
                if state.configuration.watchesFiles { continuation.yield(.poll) }
            }
        }
        continuation.onTermination = { _ in
            waiting.cancel()
            looking.cancel()
        }
        return stream
    }
}
