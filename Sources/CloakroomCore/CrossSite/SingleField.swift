public import CloakroomWire

/// What a request says in a field that may stand in it once.
public enum SingletonField: Sendable, Equatable {
    /// It is not there.
    case absent
    /// Where its value stands.
    case value(ByteRange)
    /// It is there more than once: whatever it says, it cannot be relied on.
    case multiple

    /// Takes one more field into account.
    mutating func add(_ range: ByteRange) {
        self = self == .absent ? .value(range) : .multiple
    }
}
