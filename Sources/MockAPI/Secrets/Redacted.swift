/// A value that holds a secret and must not show it when it is printed, interpolated, dumped or reflected.
///
/// A failing test prints its operands and a crash reporter walks mirrors; both see `<redacted>` only.
public protocol Redacted: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {}

extension Redacted {
    /// The type's name and `<redacted>`.
    public var description: String { "\(Self.self)(<redacted>)" }

    /// The same as `description`.
    public var debugDescription: String { description }

    /// A mirror without children.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
