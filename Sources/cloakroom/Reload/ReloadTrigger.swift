import CloakroomConfig
import UnixSignals

/// What makes a running gateway read its configuration again.
enum ReloadTrigger: Sendable, Equatable {
    /// Somebody asks for it: everything is read and put to use, changed or not.
    case signal
    /// It is time to look whether a file has changed. A change counts at the second look that finds it.
    case poll
}

extension ReloadTrigger {
    /// SIGHUP, and a look at the files as often as the configuration that is in effect says.
    ///
    /// From the call on SIGHUP no longer ends the process, so it is made before anything listens. What is started here
    /// ends with the stream.
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
