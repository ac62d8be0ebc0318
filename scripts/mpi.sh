# shellcheck shell=bash
# Sourced by the parts that start MPI programs: on this host alone, as any user.

# In a container one often is root.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# Open MPI's ranks listen on no network; no folder that others use.
export OMPI_MCA_btl=self,vader

# shellcheck disable=SC2034 # it is used where this is sourced
launcher() { # MPI RANKS: sets `launch`
  case $1 in
    openmpi) launch=(mpirun.openmpi --oversubscribe --bind-to none -n "$2") ;;
    mpich) launch=(mpirun.mpich -n "$2") ;;
  esac
}

# Open MPI starts more ranks than there are slots, without a flag: each version has a name for it, and warns
# of the one before.
oversubscribed() {
  case $(mpirun.openmpi --version 2>/dev/null | head -n 1) in
    *" 4."*) export OMPI_MCA_rmaps_base_oversubscribe=1 ;;
    *" 5."*) export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe ;;
    *) export PRTE_MCA_mapby=:oversubscribe ;;
  esac
}
