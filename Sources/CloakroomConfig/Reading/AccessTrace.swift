import Configuration
import Synchronization

/// Remembers which keys the reader was asked for and how the last lookup went.
///
/// The keys tell known ones from misspelled ones; the lookup tells where a value came from, and that it was malformed
/// where the reader itself would say nothing.
final class KeyAccessRecorder: AccessReporter {
    /// How a lookup went in the layer that decided it.
    struct Lookup: Sendable {
        let layer: SourceLayer
        /// The name of the key in that layer.
        let name: String
        /// Why there is no value although one was given.
        let failure: ConfigValueError?
    }

    private struct State {
        var keys: Set<[String]> = []
        var last: Lookup?
    }

    private let state = Mutex(State())

    /// Every key asked for so far.
    var keys: Set<[String]> { state.withLock { $0.keys } }

    /// The last lookup; `nil` if no layer knew the key.
    var last: Lookup? { state.withLock { $0.last } }

    func report(_ event: AccessEvent) {
        let lookup = Self.lookup(event)
        state.withLock { state in
            state.keys.insert(event.metadata.key.components)
            state.last = lookup
        }
    }

    private static func lookup(_ event: AccessEvent) -> Lookup? {
        guard let deciding = event.providerResults.last,
            let layer = SourceLayer(rawValue: event.providerResults.count - 1)
        else { return nil }
        switch deciding.result {
        case .success(let result):
            return result.value == nil ? nil : Lookup(layer: layer, name: result.encodedKey, failure: nil)
        case .failure(let error):
            let valueError = error as? ConfigValueError ?? ConfigValueError("is malformed", "write another value")
            return Lookup(layer: layer, name: "", failure: valueError)
        }
    }
}
