public import CloakroomWire

/// The value of a request field that may occur only once.
public enum SingletonField: Sendable, Equatable {
    /// The field is absent.
    case absent
    /// The position of the value.
    case value(ByteRange)
    /// The field occurs more than once, so none of its values is reliable.
    case multiple

    /// Adds another occurrence of the field.
    mutating func add(_ range: ByteRange) {
        self = self == .absent ? .value(range) : .multiple
    }
}
