import Synchronization

/// A reference to an object that is set at most once and then kept until the end.
///
/// `AtomicLazyReference` does the same, but its functions are not specialized: each load requests generic metadata from the
/// runtime, which takes 800 instructions. Here it is one atomic load and a reference count.
struct ReferenceSetOnce<Object: AnyObject & Sendable>: ~Copyable, Sendable {
    /// The address of the object, which is retained; 0 for none.
    private let address = Atomic<UInt>(0)

    deinit { Self.object(at: address.load(ordering: .acquiring))?.release() }

    /// The object; `nil` if none has been set.
    @inline(__always)
    borrowing func load() -> Object? { Self.object(at: address.load(ordering: .acquiring))?.takeUnretainedValue() }

    /// Passes the object on without counting a reference: it lives as long as this value.
    /// - Returns: `nil` if none has been set.
    @inline(__always)
    borrowing func withObject<Result>(_ body: (Object) -> Result) -> Result? {
        Self.object(at: address.load(ordering: .acquiring))?._withUnsafeGuaranteedRef { body($0) }
    }

    /// Sets the object, unless another thread has set one before.
    /// - Returns: The object that is kept.
    borrowing func storeIfNil(_ object: Object) -> Object {
        let new = Unmanaged.passRetained(object)
        let (isStored, first) = address.compareExchange(
            expected: 0, desired: UInt(bitPattern: new.toOpaque()), ordering: .acquiringAndReleasing)
        guard !isStored else { return object }
        new.release()
        return Self.object(at: first)?.takeUnretainedValue() ?? object
    }

    @inline(__always)
    private static func object(at address: UInt) -> Unmanaged<Object>? {
        UnsafeRawPointer(bitPattern: address).map(Unmanaged.fromOpaque)
    }
}

/// A flag that is set at most once and then stays set, such as a stop.
package final class FlagSetOnce: Sendable {
    private let flag = Atomic<Bool>(false)

    package init() {}

    package var isSet: Bool { flag.load(ordering: .acquiring) }

    package func set() { flag.store(true, ordering: .releasing) }
}
