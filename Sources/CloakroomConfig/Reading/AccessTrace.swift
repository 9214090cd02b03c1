import Configuration
import Synchronization

/// Records the keys that were looked up and the result of the last lookup.
///
/// The keys distinguish known from unknown names. The last lookup gives the source of a value, and the error of a
/// malformed value that the reader itself does not report.
final class KeyAccessRecorder: AccessReporter {
    /// The result of a lookup in the deciding layer.
    struct Lookup: Sendable {
        let layer: SourceLayer
        /// The name of the key in this layer.
        let name: String
        /// The error if a value is set but invalid.
        let failure: ConfigValueError?
    }

    private struct State {
        var keys: Set<[String]> = []
        var last: Lookup?
    }

    private let state = Mutex(State())

    /// All keys looked up so far.
    var keys: Set<[String]> { state.withLock { $0.keys } }

    /// The last lookup; `nil` if no layer has the key.
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
            let valueError =
                error as? ConfigValueError ?? ConfigValueError("must be a valid value", "write another value")
            return Lookup(layer: layer, name: "", failure: valueError)
        }
    }
}
