/// A secret value that is not shown when it is printed, interpolated, dumped or reflected.
///
/// Failing tests print their operands and crash reporters use mirrors; both see only `<redacted>`.
public protocol Redacted: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {}

extension Redacted {
    /// The type name and `<redacted>`.
    public var description: String { "\(Self.self)(<redacted>)" }

    /// The same as `description`.
    public var debugDescription: String { description }

    /// A mirror without children.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
